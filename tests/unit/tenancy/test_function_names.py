"""Own names of a tenant's functions, in statements and in SQL of the files."""

from turno.tenancy.identity.function_names import define_own_names, own_name, short_name, with_own_names

SCHEMA = "t_0123456789ab"


def test_own_name_is_taken_back() -> None:
    assert own_name("job_end", SCHEMA) == "job_end_0123456789ab"
    assert short_name(own_name("job_end", SCHEMA)) == "job_end"
    assert short_name("their_own") == "their_own"


def test_statement_names_functions_and_no_table() -> None:
    statement = (
        "SELECT * FROM {}.job_end(%s, '{{}}') JOIN {0}.job_start(%s) ON true JOIN {}.background_jobs (id) USING (id)"
    )
    assert with_own_names(statement, SCHEMA) == (
        "SELECT * FROM {}.job_end_0123456789ab(%s, '{{}}') JOIN {0}.job_start_0123456789ab(%s) ON true"
        " JOIN {}.background_jobs (id) USING (id)"
    )


def test_files_name_definitions_calls_and_parameters() -> None:
    text = "CREATE FUNCTION job_end() AS $$ job_end.id := turno.job_end(my_job_end(), job_ended()) $$; job_end"
    assert define_own_names(text, ["job_end"], SCHEMA) == text.replace(
        "FUNCTION job_end(", "FUNCTION job_end_0123456789ab("
    ).replace(" job_end.id", " job_end_0123456789ab.id")
    assert define_own_names(text, [], SCHEMA) == text
