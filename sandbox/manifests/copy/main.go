// Command copy refreshes the copied manifests from the Go modules they belong to. Run it by `go generate ./manifests`.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/rayslice/rayslice/sandbox/manifests/origin"
)

func main() {
	files, err := origin.Files("..")
	if err != nil {
		log.Fatal(err)
	}
	for path, content := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
