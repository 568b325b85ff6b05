"""Guards of the promises in deploy/ and docs/deploying.md."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MANAGED = "tests/integration/tenancy/test_managed_provisioner.py"
IMAGES = "tests/unit/test_images_and_manifests.py"
RESTORE_TENANT = "deploy/backup/restore-tenant.sh"
DERIVED = "deploy/backup/derived.sql"
SCRIPTS = "tests/integration/test_backup_scripts.py"
MADE_ANEW = f"{SCRIPTS}::test_control_rows_of_a_tenant_are_derived"
PUT_BACK = f"{SCRIPTS}::test_tenant_at_work_is_not_restored_nor_by_half"
NAMED = "docs/deploying.md: a missing right is refused by name, before a change"
SECOND = f"{MANAGED}::test_second_admin_learns_missing_rights_and_works_later"
RIGHTS = "turno/tenancy/provisioning/install.py"
RELEASES = "docs/deploying.md: stored data is read by both releases"
ANNOUNCEMENTS = "tests/integration/store/test_announcements.py"
PAYLOADS = "tests/integration/runner/test_changed_payload.py"

MUTANTS = (
    Mutant(
        "a worker fails jobs with a field of another release",
        RELEASES,
        "turno/runner/executor.py",
        "        if outcome is self.unknown_fields and self._waits_for_another_release():\n",
        "        if False:\n",
        (f"{PAYLOADS}::test_worker_returns_fields_of_another_release",),
    ),
    Mutant(
        "a job waits for ever for a release that is gone",
        RELEASES,
        "turno/migrations/tenant/functions/payload_declared_otherwise.sql",
        " AND h.seen_at > clock_timestamp() - interval '1 hour'",
        "",
        (f"{PAYLOADS}::test_unknown_field_of_no_release_fails_once[61 min]",),
    ),
    Mutant(
        "payloads of old releases are kept for ever",
        RELEASES,
        "turno/migrations/control/functions/prune.sql",
        "DELETE FROM handler_payloads WHERE seen_at < now - interval '1 day' RETURNING 1",
        "DELETE FROM handler_payloads WHERE false RETURNING 1",
        (f"{PAYLOADS}::test_maintenance_forgets_payloads_after_a_day",),
    ),
    Mutant(
        "an announcement waits for a frozen process",
        RELEASES,
        "turno/migrations/control/functions/announce.sql",
        "FOR NO KEY UPDATE OF h SKIP LOCKED);\n    RETURN pause;",
        "FOR NO KEY UPDATE OF h);\n    RETURN pause;",
        (f"{ANNOUNCEMENTS}::test_announcement_waits_for_no_process_that_froze[handler_payloads]",),
    ),
    Mutant(
        "a changed payload without a new version is not reported",
        RELEASES,
        "turno/store/engine/announcements.py",
        "HAVING count(*) > 1",
        "HAVING count(*) > 9",
        (f"{PAYLOADS}::test_migrate_and_doctor_report_a_changed_payload",),
    ),
    Mutant(
        "a provisioner's rights are not looked at before",
        NAMED,
        "turno/tenancy/provisioning/install.py",
        "    check_provisioner(admin, logins)\n",
        "",
        (f"{MANAGED}::test_each_missing_right_is_named_with_its_grant[cluster]",),
    ),
    Mutant(
        "a second provisioner cannot act as the owners",
        "docs/deploying.md: with ADMIN OPTION of each role a second provisioner works",
        "turno/tenancy/provisioning/install.py",
        "        become_able_to_act(admin, logins)\n",
        "",
        (f"{SECOND}[postgres15]",),
    ),
    Mutant(
        "on a managed server the check leaves out repairable findings",
        "docs/deploying.md: --managed leaves out repairs that need a superuser",
        "turno/commands/db.py",
        "if not (managed and finding.for_superuser)",
        "if not managed",
        (f"{MANAGED}::test_managed_check_omits_findings_of_superusers",),
    ),
    Mutant(
        "a web without its database is restarted",
        "docs/deploying.md: liveness does not depend on the database",
        "deploy/kubernetes/base/web.yaml",
        "          livenessProbe:\n            httpGet: {path: /healthz, port: http}\n",
        "          livenessProbe:\n            httpGet: {path: /readyz, port: http}\n",
        (f"{IMAGES}::test_a_pod_runs_a_command_that_exists_confined_and_is_probed[web]",),
    ),
    Mutant(
        "workers of one queue are scaled by another's wait",
        "docs/deploying.md: the scaler reads the oldest wait of a queue",
        "deploy/kubernetes/keda/scaler.yaml",
        'queue="cold"})',
        'queue="hot"})',
        (f"{IMAGES}::test_scaler_reads_oldest_wait_of_its_queue",),
    ),
    Mutant(
        "a container's first process keeps the secrets",
        "deploy/container/compose.yml: handlers cannot read the secrets of a first process",
        "deploy/container/compose.yml",
        "  read_only: true\n",
        "  read_only: true\n  init: true\n",
        (f"{IMAGES}::test_a_service_runs_a_command_confined_and_has_time_to_stop[web]",),
    ),
    Mutant(
        "a tenant is put back while its jobs run",
        "deploy/backup/restore-tenant.sh: refused unless it is paused and none of its jobs runs",
        RESTORE_TENANT,
        '[ "$running" = f ] ||',
        "true ||",
        (PUT_BACK,),
    ),
    Mutant(
        "half of a tenant is put back",
        "deploy/backup/restore-tenant.sh: in one transaction",
        RESTORE_TENANT,
        " --single-transaction",
        "",
        (PUT_BACK,),
    ),
    Mutant(
        "the webhooks of a job that was put back are forgotten",
        "docs/operations.md: webhooks of open jobs come back with their tenant",
        DERIVED,
        " AND j.finished_at IS NULL) ON CONFLICT",
        " AND j.finished_at IS NOT NULL) ON CONFLICT",
        (MADE_ANEW,),
    ),
    Mutant(
        "a segment of the log is replaced by a different one",
        "deploy/backup/archive-wal.sh: an archived segment is never replaced",
        "deploy/backup/archive-wal.sh",
        'if [ -e "$kept" ]; then',
        "if false; then",
        (f"{SCRIPTS}::test_log_segment_is_kept_whole_and_never_replaced",),
    ),
    Mutant(
        "a tenant is moved over jobs that are there",
        "docs/deploying.md: a tenant is not moved to where it has jobs",
        "deploy/backup/move-tenant.sh",
        '[ "$(jobs "$to" "$new")" = 0 ] ||',
        "true ||",
        (f"{SCRIPTS}::test_tenant_at_work_or_with_jobs_at_target_is_not_moved",),
    ),
    Mutant(
        "no limit of open jobs is a limit of none",
        "docs/operations.md: 0 switches any of these limits off",
        "turno/settings.py",
        "return self.pending_jobs_per_user or None",
        "return self.pending_jobs_per_user",
        ("tests/integration/web/test_rate_limits.py::test_no_limit_is_no_limit",),
    ),
)
