"""Errors in Google's format."""

import json
from http import HTTPStatus

import pytest

from hookgate.proxy.errors import ApiError, not_a_route, policy_denied


def test_a_denial_is_what_clients_show_once_and_do_not_retry() -> None:
    assert json.loads(policy_denied("No keys, please: ключ.", "BeforeModel").body()) == {
        "error": {
            "code": 403,
            "message": "No keys, please: ключ.",
            "status": "PERMISSION_DENIED",
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "POLICY_DENIED",
                    "domain": "hookgate",
                    "metadata": {"event": "BeforeModel"},
                }
            ],
        }
    }


def test_a_refused_route_is_distinguished_from_a_denial() -> None:
    error = json.loads(not_a_route("Not here.").body())["error"]
    assert (error["code"], error["status"]) == (403, "PERMISSION_DENIED")
    assert error["details"][0]["reason"] == "ROUTE_NOT_ALLOWED"


def test_an_error_without_a_reason_has_no_details() -> None:
    assert json.loads(ApiError(400, "Wrong.").body()) == {
        "error": {"code": 400, "message": "Wrong.", "status": "INVALID_ARGUMENT"}
    }


@pytest.mark.parametrize("code", [400, 403, 413, 415, 500, 502, 504])
def test_every_status_in_use_is_a_real_one_with_a_name_of_googles(code: int) -> None:
    error = json.loads(ApiError(HTTPStatus(code), "Text.").body())["error"]
    assert error["code"] == code
    assert error["status"].isupper()
