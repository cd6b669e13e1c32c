"""The programs of others that `peers.py` and `filters.py` measure, each run in an environment that holds its packages.

Usage: python benchmarks/peer_programs.py NAME MAIN OUT NUMBER

MAIN is a folder with `shard/main.parquet` (image_key, image), `files/` (the same pictures, a file each) and
`urls.parquet`. OUT becomes a Parquet file or a folder of them. All but img2dataset do the same to a picture: decode in
full, turn upright, Pillow's LANCZOS, crop to the size of `sidecar_resize.geometry` (which needs nothing else, and of
which PYTHONPATH has a copy), WEBP of quality 95 with method NUMBER. img2dataset resizes by itself, and cannot crop to
such sizes: NUMBER is the length of shorter sides in pixels. cleanvision looks at the pictures of MAIN, a folder, and
writes its CPU seconds to OUT.
"""

from __future__ import annotations

import io
import sys
from functools import partial
from pathlib import Path

WORKERS = 2
BATCH_ROWS = 32
AREA_PX = 512 * 512
QUALITY = 95
CLEANVISION_ISSUES = ("dark", "light", "blurry", "low_information", "odd_aspect_ratio", "odd_size", "grayscale")


def resize_one(image: bytes, method: int) -> bytes:
    """Returns the picture as page 4 of the design sizes it, by Pillow alone."""
    from geometry import target_size
    from PIL import Image, ImageOps

    picture = ImageOps.exif_transpose(Image.open(io.BytesIO(image))).convert("RGB")
    size = target_size(picture.width, picture.height, AREA_PX)
    scaled = picture.resize((size.resized_width, size.resized_height), Image.Resampling.LANCZOS)
    left, top = size.crop_left, size.crop_top
    out = io.BytesIO()
    scaled.crop((left, top, left + size.width, top + size.height)).save(out, "WEBP", quality=QUALITY, method=method)
    return out.getvalue()


def resize_several(images: list[bytes], method: int) -> list[bytes]:
    """Returns the pictures resized: what a pool is given in one go."""
    return [resize_one(image, method) for image in images]


def resize_rows(rows: dict[str, list[bytes]], method: int) -> dict[str, list[bytes]]:
    """Returns a batch of rows resized."""
    return {"image_key": rows["image_key"], "image": resize_several(rows["image"], method)}


def pillow_pool(main: Path, out: Path, method: int) -> None:
    """A pool of processes, batches of rows, one file: what somebody writes in an afternoon."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(main / "shard/main.parquet")
    images = table.column("image").to_pylist()
    batches = [images[first : first + BATCH_ROWS] for first in range(0, len(images), BATCH_ROWS)]
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        done = [each for batch in pool.map(partial(resize_several, method=method), batches) for each in batch]
    column = pa.array(done, pa.binary())
    pq.write_table(
        pa.table({"image_key": table.column("image_key"), "image": column}),
        out,
        compression="none",
        use_dictionary=False,
    )


def huggingface(main: Path, out: Path, method: int) -> None:
    """Hugging Face datasets: `map` over batches in two processes."""
    from datasets import Dataset, Features, Value

    features = Features({"image_key": Value("string"), "image": Value("binary")})
    cache = f"{out}-cache"
    rows = Dataset.from_parquet(str(main / "shard/main.parquet"), features=features, cache_dir=cache)
    done = rows.map(
        partial(resize_rows, method=method),
        batched=True,
        batch_size=BATCH_ROWS,
        num_proc=WORKERS,
        features=features,
        load_from_cache_file=False,
    )
    done.to_parquet(str(out))


def daft(main: Path, out: Path, method: int) -> None:
    """Daft: a batch function over the file, in as many threads or processes as it chooses."""
    import daft

    @daft.func.batch(return_dtype=daft.DataType.binary(), batch_size=BATCH_ROWS)
    def resized(images: daft.Series) -> list[bytes]:
        return resize_several(images.to_pylist(), method)

    rows = daft.read_parquet(str(main / "shard/main.parquet"))
    rows.select(rows["image_key"], resized(rows["image"]).alias("image")).write_parquet(str(out), compression="none")


def img2dataset(main: Path, out: Path, shorter_side_px: int) -> None:
    """img2dataset from files: OpenCV's INTER_AREA, no crop, libwebp's own method 4, which it cannot change."""
    from img2dataset import download

    rows = len(list((main / "files").iterdir()))
    download(
        url_list=str(main / "urls.parquet"),
        input_format="parquet",
        url_col="url",
        save_additional_columns=["image_key"],
        output_folder=str(out),
        output_format="parquet",
        image_size=shorter_side_px,
        resize_mode="keep_ratio",
        encode_format="webp",
        encode_quality=QUALITY,
        processes_count=WORKERS,
        number_sample_per_shard=-(-rows // WORKERS),
    )


def cleanvision(main: Path, out: Path, _: int) -> None:
    """cleanvision: its checks of single pictures, one process."""
    import time

    from cleanvision import Imagelab

    lab = Imagelab(data_path=str(main))
    started = time.process_time()
    lab.find_issues({name: {} for name in CLEANVISION_ISSUES}, n_jobs=1)
    out.write_text(str(time.process_time() - started))


PROGRAMS = {
    "cleanvision": cleanvision,
    "pillow": pillow_pool,
    "huggingface": huggingface,
    "daft": daft,
    "img2dataset": img2dataset,
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
