DROP TABLE fleet;
DROP TABLE clusters;
