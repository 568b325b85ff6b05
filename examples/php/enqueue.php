<?php
// Enqueue a job from PHP, in the transaction of other writes: php enqueue.php DSN USER PASSWORD.

declare(strict_types=1);

function enqueue(PDO $database, string $tenant, string $type, array $payload, ?string $key = null): string
{
    $asked = $database->prepare(
        'SELECT job_id FROM turno.enqueue(tenant => :tenant, type => :type, payload => :payload, key => :key)'
    );
    $asked->execute([
        'tenant' => $tenant,
        'type' => $type,
        // An empty array would be a list; a payload is an object.
        'payload' => json_encode((object) $payload, JSON_THROW_ON_ERROR),
        'key' => $key,
    ]);
    return $asked->fetchColumn();
}

[, $dsn, $user, $password] = $argv;
$database = new PDO($dsn, $user, $password, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);

$database->beginTransaction();
$database->exec("INSERT INTO suc0001.sales (month, total) VALUES ('2026-06', 100)");
$job = enqueue($database, 'suc0001', 'monthly_report', ['month' => '2026-06'], 'report-2026-06');
$database->commit(); // with a rollBack() neither the sale nor the job is there

echo $job, PHP_EOL;
