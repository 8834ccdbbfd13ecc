DROP TABLE charges;
DROP TABLE quotas;
