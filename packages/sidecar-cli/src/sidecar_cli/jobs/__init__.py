"""Manifests of jobs: templates for KubeRay and for a team's own scheduler, their checks, and how they are filled."""
