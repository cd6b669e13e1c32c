from __future__ import annotations

import shutil

import pytest
from sidecar_core.dataset import load_dataset
from sidecar_core.pipeline import build_pipeline
from sidecar_runtimes.ray_cluster import RayCluster


@pytest.fixture
def make_pipeline(tmp_path):
    """Returns a function that builds a pipeline over `tmp_path/main` with the testing ops."""

    def make(operations=({"type": "measure_bytes"},), *, extra="", outputs=None, image_column="image"):
        yaml = tmp_path / "dataset.yaml"
        yaml.write_text(
            f"name: example\nmain_prefix: {tmp_path}/main/\nsidecar_prefix: {tmp_path}/yaml-out/\n"
            f"key_column: image_key\n{f'image_column: {image_column}' if image_column else ''}\n{extra}"
        )
        dataset = load_dataset(yaml)
        return build_pipeline(dataset, list(operations), outputs=outputs, plugins=("sidecar_core.testing.ops",))

    return make


@pytest.fixture(scope="session", autouse=True)
def index_cache(tmp_path_factory):
    """Where indexes of side inputs are kept, for this process and for the workers of clusters that it starts."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIDECAR_CACHE_DIR", str(folder))
        yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def ray_cluster(index_cache):
    """One small Ray cluster on this machine for every test that asks; runtimes use it as they find it."""
    with RayCluster(cpus=2) as cluster:
        yield cluster
