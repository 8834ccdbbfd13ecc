DROP TABLE certificates;
DROP TABLE verifications;
