"""The report: figures gathered from an output, and the page that shows them.

`gather` reads shards and returns `figures.ReportData`, plain values; `page` turns that into one HTML file.
"""
