<?php
// Wait for the end of a job from PHP: php follow.php DSN USER PASSWORD TENANT JOB.

declare(strict_types=1);

[, $dsn, $user, $password, $tenant, $job] = $argv;
$database = new PDO($dsn, $user, $password, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);

$followed = $database->prepare('SELECT outcome, done, total, result, error FROM turno.wait(:tenant, :job, 30)');
$followed->execute(['tenant' => $tenant, 'job' => $job]);
$found = $followed->fetch(PDO::FETCH_ASSOC);
if ($found === false) {
    exit("The tenant has no job $job." . PHP_EOL);
}
echo $found['outcome'] ?? 'still open', ' ', $found['error'] ?? $found['result'] ?? '', PHP_EOL;
