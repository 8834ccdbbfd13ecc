// Package static holds the files browsers load as they are: the stylesheet, app.js and the vendored libraries.
package static

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
)

//go:embed app.css app.js api-docs.js usage.js favicon.svg vendor/*.js vendor/*.css vendor/*.woff2
var files embed.FS

// Prefix is where Handler is to be mounted.
const Prefix = "/static/"

var versions = hashAll()

// hashAll returns the first eight bytes of each file's SHA-256 as hex, by name.
func hashAll() map[string]string {
	hashes := map[string]string{}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := files.ReadFile(name)
		sum := sha256.Sum256(content)
		hashes[name] = hex.EncodeToString(sum[:8])
		return err
	})
	if err != nil {
		panic(err) // embedded files are always readable
	}
	return hashes
}

// Path returns the address of a file with its version, e.g. "/static/app.css?v=0123456789abcdef".
func Path(name string) string { return Prefix + name + "?v=" + versions[name] }

// Handler serves the files under Prefix. What is asked for with its current version may be kept for a year; anything
// else is checked again each time. Folders are not listed.
func Handler() http.Handler {
	server := http.StripPrefix(Prefix, http.FileServerFS(files))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		version, ok := versions[r.URL.Path[min(len(Prefix), len(r.URL.Path)):]]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-cache")
		if r.URL.Query().Get("v") == version {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		w.Header().Set("ETag", `"`+version+`"`)
		server.ServeHTTP(w, r)
	})
}
