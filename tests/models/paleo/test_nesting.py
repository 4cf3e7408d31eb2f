import pytest

from scalecurve_models.networks import shipped
from scalecurve_models.paleo.nesting import bounds, nest
from scalecurve_models.paleo.parallel import predict_model_parallel
from scalecurve_models.paleo.scaling import predict_step
from tests.models.paleo.paleo_rules_cases import ON


def test_nesting_of_branches():
    items = nest(shipped("alex_v2_2gpu"))
    branches = [item for item in items if not isinstance(item, str)]
    assert [len(each) for each in branches] == [2, 2]
    assert branches[0][1] == ["parallel_fc67/fc6@1", "parallel_fc67/dropout6@1"]
    assert bounds(["a", (["b"], ["c", (["d"], ["e"])])], {"a": 1, "b": 5, "c": 2, "d": 1, "e": 2}) == (6, 11)
    forward, _ = predict_model_parallel(shipped("inception_v3"), ON, batch=8)
    assert forward.least_ms < forward.most_ms
    assert forward.most_ms == pytest.approx(predict_step(shipped("inception_v3"), ON, batch=8).forward_ms)
