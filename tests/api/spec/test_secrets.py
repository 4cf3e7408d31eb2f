from __future__ import annotations

import string

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.secrets import (
    HIDDEN,
    experiment_without_secrets,
    hidden,
    masked,
    secret_name,
    secrets_in,
    values_in,
)
from scalecurve_api.validation.redaction import text_without_secrets
from scalecurve_api.validation.validate import validate_text
from tests.api.example_experiments import experiment

CANARY = "s3cr3t-canary-Zq81"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HF_TOKEN", True),
        ("WANDB_API_KEY", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("NCCL_PW", True),
        ("CUDA_CREDS", True),
        ("dbPassword", True),
        ("--api-key", True),
        ("TOKENIZERS_PARALLELISM", False),
        ("--max-tokens", False),
        ("API_KEY_FILE", False),
        ("AWS_ACCESS_KEY_ID", False),
        ("NCCL_IB_PKEY", False),
        ("PWD", False),
        ("OMP_NUM_THREADS", False),
    ],
)
def test_names_of_secrets(name: str, secret: bool) -> None:
    assert secret_name(name) is secret


def custom(env: dict[str, str], *command: str) -> ScalingExperiment:
    workload = {"workload/program": "custom", "workload/env": env, "workload/command": [*command] or ["train"]}
    return experiment(workload)


@pytest.mark.parametrize(
    ("env", "command", "secrets"),
    [
        ({"HF_TOKEN": CANARY}, [], [CANARY]),
        ({"MAX_KEY": "12", "USE_AUTH": "true", "TOKEN": ""}, [], []),
        ({"OPTS": "--user x --k hf_" + "a" * 30}, [], ["hf_" + "a" * 30]),
        ({"STORE": f"https://joe:{CANARY}@host/x"}, [], [f"joe:{CANARY}"]),
        ({}, ["train", "--api-key", CANARY, "--lr", "0.1"], [CANARY]),
        ({}, ["train", f"--api-key={CANARY}"], [CANARY]),
        ({}, ["train", "--token", "--lr", "AKIA" + "A" * 16], ["AKIA" + "A" * 16]),
        ({}, ["train", "--api-key-file", "/x/y"], []),
    ],
)
def test_secrets_are_found_in_variables_and_words(env: dict[str, str], command: list[str], secrets: list[str]) -> None:
    of = custom(env, *command)
    assert [secret for _, secret in secrets_in(of.spec.workload)] == secrets
    public = experiment_without_secrets(of)
    assert not any(secret in str(public) for secret in secrets)
    assert experiment_without_secrets(public) == public, "digests stay as they are"


def test_args_keep_no_secret_either() -> None:
    """The option may be the last word of the command, and its value the first of the args."""
    of = experiment(
        {
            "workload/program": "custom",
            "workload/command": ["train", "--api-key"],
            "workload/args": [CANARY, "--lr", "0.1", f"--token={CANARY}x"],
        }
    )
    assert [place for place, _ in secrets_in(of.spec.workload)] == [("args", 0), ("args", 3)]
    assert CANARY not in str(experiment_without_secrets(of))
    public = text_without_secrets(yaml.safe_dump(of.wire(), sort_keys=False), of)
    assert CANARY not in public
    assert validate_text(public, "x.yaml").experiments == (experiment_without_secrets(of),)


def test_a_digest_tells_values_apart_within_an_experiment_and_nothing_beyond() -> None:
    assert hidden(CANARY, "one") == hidden(CANARY, "one") != hidden(CANARY + "x", "one")
    assert hidden(CANARY, "one") != hidden(CANARY, "two")
    assert len(hidden(CANARY, "one")) == len(HIDDEN) + 16


TEXTS = st.text(string.ascii_letters + string.digits + " \"'#:-{}[]&*!|>%@\\", min_size=6, max_size=40).filter(
    lambda text: text.strip() == text and not text.startswith("redacted:")
)


@given(TEXTS, st.sampled_from([None, '"', "'"]))
@example("exclud", None)
def test_the_text_of_an_experiment_keeps_no_secret_and_everything_else(secret: str, style: str | None) -> None:
    of = custom({"A": "plain", "B_TOKEN": secret}, "train", "--password", "x" + secret)
    text = f"# a comment\n{yaml.dump(of.wire(), default_style=style, sort_keys=False)}"
    public = text_without_secrets(text, of)
    (read,) = validate_text(public, "x.yaml").experiments
    assert read == experiment_without_secrets(of)
    assert public.startswith("# a comment\n")


def test_comments_and_blocks_keep_no_secret() -> None:
    of = custom({"B_TOKEN": CANARY + "\n", "C": "1"})
    text = yaml.safe_dump(of.wire(), sort_keys=False)
    dumped = yaml.safe_dump({"B_TOKEN": CANARY + "\n"}).split(": ", 1)[1].rstrip("\n").replace("\n", "\n      ")
    block = text.replace(dumped, f"|\n        {CANARY}\n") + f"# {CANARY}\n"
    of = validate_text(block, "x.yaml").experiments[0]
    public = text_without_secrets(block, of)
    assert CANARY not in public.replace("\n", "")
    assert validate_text(public, "x.yaml").experiments[0] == experiment_without_secrets(of)


def test_a_secret_is_warned_of_without_its_value() -> None:
    text = yaml.safe_dump(custom({"HF_TOKEN": CANARY}, "train", "--api-key", CANARY).wire(), sort_keys=False)
    validated = validate_text(text, "x.yaml")
    assert not validated.problems
    warnings = [str(warning) for warning in validated.warnings]
    assert [warning.split(": ")[1] for warning in warnings] == [
        "spec.workload.env.HF_TOKEN",
        "spec.workload.command[2]",
    ]
    assert all("workload.envFrom with a Secret" in warning and CANARY not in warning for warning in warnings)


@pytest.mark.parametrize(
    ("changes", "field", "code"),
    [
        ({"matrix": {"env.MY_TOKEN": ["aaaaaa", "bbbbbb"]}}, "spec.matrix.env.MY_TOKEN", "Invalid"),
        ({"workload/envFrom": [{}]}, "spec.workload.envFrom[0]", "Invalid"),
        ({"workload/envFrom": [{"secret": "a", "configMap": "b"}]}, "spec.workload.envFrom[0]", "Invalid"),
        ({"workload/envFrom": [{"secret": "a", "name": "X"}]}, "spec.workload.envFrom[0].name", "Forbidden"),
        (
            {"workload/envFrom": [{"secret": "a", "key": "k", "prefix": "P"}]},
            "spec.workload.envFrom[0].prefix",
            "Forbidden",
        ),
        ({"workload/envFrom": [{"secret": "a", "key": "RANK"}]}, "spec.workload.envFrom[0].name", "Forbidden"),
    ],
)
def test_what_env_from_may_not_say(changes: dict[str, object], field: str, code: str) -> None:
    (problem,) = validate_text(yaml.safe_dump(experiment(changes).wire()), "x.yaml").problems
    assert (problem.field, problem.code) == (field, code)


def test_values_to_mask_come_from_secret_names_and_from_secrets() -> None:
    of = experiment(
        {"workload/envFrom": [{"secret": "a", "key": "k", "name": "PLAIN"}, {"configMap": "c", "key": "C"}]}
    )
    environment = {
        "HF_TOKEN": "token-value",
        "PLAIN": "from-a-secret",
        "C": "from-a-map",
        "A_KEY": "short",
        "B_KEY": "1234567",
        "S3_LOGIN": "of a whole Secret",
        "SCALECURVE_HIDDEN_1_LOGIN": "of a whole Secret",
        "SCALECURVE_HIDDEN_2_PEM": "-----BEGIN-----\nabcdefgh\n  x\n",
    }
    secrets = values_in(environment, of.spec.workload)
    (pem,) = [secret for secret in secrets if "\n" in secret]
    assert secrets[0] == pem, "the longest first"
    lines = {"-----BEGIN-----", "abcdefgh"}
    assert set(secrets) - {pem} == {"from-a-secret", "token-value", "of a whole Secret", *lines}
    assert masked("x token-value from-a-secret from-a-map", secrets) == "x *** *** from-a-map"
