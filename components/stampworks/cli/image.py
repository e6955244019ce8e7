"""`stampworks image`: builds the node image of a release, which `pulumi up` then starts nodes from."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stampworks.cli import exits, stacks
from stampworks.cli.accounts import asking

if TYPE_CHECKING:
    from stampworks.plan import Plan


def add_verbs(verbs: Any) -> None:
    """Add the verb `image` and its options."""
    image = verbs.add_parser("image", help="build the node image of a stack's release", allow_abbrev=False)
    stacks.add_stack_option(image)
    image.add_argument("--packer", metavar="FILE", help="build nothing, and write the inputs of Packer for it")
    image.set_defaults(call=build_image)


def build_image(arguments: argparse.Namespace) -> int:
    """Build missing parts of the image, or name an existing one."""
    from stampworks import configuration
    from stampworks.cli.output import Progress
    from stampworks.provider import node_image

    plan = stacks.plan_of(arguments.stack)
    if plan.managed:
        what = f"nodes of cluster {plan.name} boot the image that {plan.cloud} has for them: no image is built"
        raise exits.CliError(what, "`stampworks lock` looks it up")
    if arguments.packer:
        return for_packer(plan, Path(arguments.packer))
    if plan.controller.launch:
        what = f"images built here are for nodes on this machine, and those of cluster {plan.name} are on {plan.cloud}"
        raise exits.CliError(what, "use --packer FILE to build an image there")
    release = plan.release
    with Progress(f"release {release.name}") as progress:
        image = node_image.ensure_node_image(release, configuration.install_digest(), progress)
    print(f"image {image.digest} of release {release.name} is ready")
    return exits.FINE


def for_packer(plan: Plan, file: Path) -> int:
    """Write Packer's variables for the image into a file, print the command, and return the exit code."""
    from stampworks import configuration
    from stampworks.planning.build.launching import elsewhere, made_with_packer

    if plan.release.name not in made_with_packer(plan.cloud):
        what = f"nodes of release {plan.release.name} boot the image of a vendor: none is made with Packer"
        others = ", ".join(made_with_packer(plan.cloud))
        raise exits.CliError(what, f"`stampworks lock` looks it up; Packer makes images of {others}")
    launch = plan.controller.launch
    first_boot = asking(plan.cloud, lambda cloud: cloud.image_builder).builder_config(launch.agent) if launch else ""
    variables = configuration.packer_variables(plan, first_boot)
    if not variables["published_image"]:
        what = f"{plan.cloud}: no published image is known from which this one could be made"
        raise exits.CliError(what, "--packer is for a cloud that starts nodes from an image")
    file.write_text(json.dumps(variables, indent=2) + "\n", encoding="utf-8")
    template = configuration.playbooks_dir() / "packer" / f"{plan.cloud}.pkr.json"
    declared = json.loads(template.read_text(encoding="utf-8"))["variable"]
    asked = [name for name, told in declared.items() if "default" not in told and name not in variables]
    print(f"{file} is written. Give the values that it cannot know:")
    print(f"  packer init {template}")
    print(" ".join([f"  packer build -var-file={file}", *(f"-var {name}=..." for name in asked), str(template)]))
    if missing := [*elsewhere(plan.release)]:
        print("packages_source has to hold the packages that the source image cannot install:")
        for software, repository in missing:
            wanted = ", ".join(f"{name} {version}".rstrip() for name, version in software.packages)
            print(f"  {software.name}: {wanted}\n    from {repository}")
    return exits.FINE
