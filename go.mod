module github.com/rayslice/rayslice

go 1.26
