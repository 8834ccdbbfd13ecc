package static

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHandler(t *testing.T) {
	for name, c := range map[string]struct {
		path, cache, kind string
		status            int
	}{
		"with its version":    {Path("app.css"), "public, max-age=31536000, immutable", "text/css; charset=utf-8", http.StatusOK},
		"with an old version": {"/static/app.css?v=0", "no-cache", "text/css; charset=utf-8", http.StatusOK},
		"without a version":   {"/static/vendor/inter-latin-wght-normal.woff2", "no-cache", "font/woff2", http.StatusOK},
		"a folder":            {"/static/vendor/", "", "text/plain; charset=utf-8", http.StatusNotFound},
		"outside":             {"/static/../static.go", "", "text/plain; charset=utf-8", http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, c.path, nil))
			if w.Code != c.status || w.Header().Get("Cache-Control") != c.cache || w.Header().Get("Content-Type") != c.kind {
				t.Errorf("got %d %v, want %d %q %q", w.Code, w.Header(), c.status, c.cache, c.kind)
			}
		})
	}
}

func TestAnUnchangedFileIsNotSentAgain(t *testing.T) {
	first := httptest.NewRecorder()
	Handler().ServeHTTP(first, httptest.NewRequest(http.MethodGet, "/static/app.js", nil))
	again := httptest.NewRequest(http.MethodGet, "/static/app.js", nil)
	again.Header.Set("If-None-Match", first.Header().Get("ETag"))
	second := httptest.NewRecorder()
	Handler().ServeHTTP(second, again)
	if second.Code != http.StatusNotModified || !strings.HasPrefix(first.Body.String(), "//") {
		t.Errorf("got %d", second.Code)
	}
}
