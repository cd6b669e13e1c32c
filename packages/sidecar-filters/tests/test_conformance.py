"""Every filter keeps the contract of filters."""

from sidecar_filters.testing.conformance import FilterConformance


class TestLuma(FilterConformance):
    filter_name = "luma"


class TestSaturation(FilterConformance):
    filter_name = "saturation"


class TestColorEntropy(FilterConformance):
    filter_name = "color_entropy"


class TestClarity(FilterConformance):
    filter_name = "clarity"


class TestTexture(FilterConformance):
    filter_name = "texture"


class TestEdgeDensity(FilterConformance):
    filter_name = "edge_density"


class TestJpegArtifact(FilterConformance):
    filter_name = "jpeg_artifact"


class TestExifRotation(FilterConformance):
    filter_name = "exif_rotation"


class TestExifMetadata(FilterConformance):
    filter_name = "exif_metadata"


class TestIntegrity(FilterConformance):
    filter_name = "integrity"


class TestFingerprint(FilterConformance):
    filter_name = "fingerprint"
