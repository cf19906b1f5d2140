"""What a publisher says of a release: in the record, covered by the ledger, and nothing else."""

import json

import numpy as np
import pytest

import dpkv
from dpkv.errors import ParameterError
from dpkv.releases import ReleaseRecord, verify
from dpkv.releases.verify import failed

X = np.random.default_rng(0).random((60, 2))
ASKED = {"k": 2, "eps": 1, "bounds": (0, 1), "mechanism": "forgy"}


def test_what_was_said_is_in_the_record_and_an_alteration_is_noticed_by_the_ledger(tmp_path):
    done = dpkv.release(X, **ASKED, workspace=tmp_path, publisher="a town", purpose="planning")
    about = done.record.plan.about
    assert about is not None
    assert (about.publisher, about.data, about.purpose) == ("a town", None, "planning")
    fields = json.loads(done.record.to_json())
    assert fields["plan"]["about"] == {"publisher": "a town", "purpose": "planning"}
    assert not failed(verify(done.record, workspace=tmp_path))
    fields["plan"]["about"]["purpose"] = "advertising"
    altered = ReleaseRecord.model_validate_json(json.dumps(fields))
    assert failed(verify(altered, workspace=tmp_path))


def test_where_nobody_said_anything_a_plan_is_spelled_as_before():
    record = dpkv.simulate(X, **ASKED, seed=0).record
    assert record.plan.about is None
    assert "about" not in json.loads(record.to_json())["plan"]
    assert b'"about"' not in record.plan.canonical()
    assert ReleaseRecord.model_validate_json(record.to_json()) == record


@pytest.mark.parametrize("words", ["", " ", "two\nlines", "\x1b[2J", "x" * 301, 5])
def test_words_that_no_page_can_show_are_refused(words):
    with pytest.raises(ParameterError, match="purpose must be"):
        dpkv.simulate(X, **ASKED, seed=0, purpose=words)


@pytest.mark.parametrize("about", [{}, {"publisher": ""}, {"purpose": "a\nb"}, {"author": "x"}])
def test_a_record_that_says_nothing_or_too_much_is_refused(about):
    fields = json.loads(dpkv.simulate(X, **ASKED, seed=0).record.to_json())
    fields["plan"]["about"] = about
    with pytest.raises(ValueError, match=r"about|Extra|at least 1|printable"):
        ReleaseRecord.model_validate_json(json.dumps(fields))
