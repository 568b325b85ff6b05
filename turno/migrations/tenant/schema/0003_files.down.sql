DROP TABLE job_file_pieces, job_files CASCADE;
