DROP TABLE openings;
