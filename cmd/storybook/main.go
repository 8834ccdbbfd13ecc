// Command storybook shows every page in every state, without database or Kubernetes: web/samples.go drawn as the
// portal would draw it, under the portal's content security policy.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"html/template"
	"net/http"
	"os"
	"time"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/static"
	"github.com/rayslice/rayslice/web"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8090", "where to listen")
	flag.Parse()
	fmt.Printf("http://%s/\n", *addr)
	server := &http.Server{Addr: *addr, Handler: newStorybook(), ReadHeaderTimeout: 5 * time.Second}
	if err := server.ListenAndServe(); err != nil {
		fmt.Fprintln(os.Stderr, "storybook:", err)
		os.Exit(1)
	}
}

// contentSecurityPolicy is the portal's: nothing inline.
const contentSecurityPolicy = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

// newStorybook returns the handler: / lists the samples, /NAME?lang=CODE shows one.
func newStorybook() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+static.Prefix, static.Handler())
	mux.HandleFunc("GET /{$}", showIndex)
	mux.HandleFunc("POST /clusters/preview", preview)
	mux.HandleFunc("GET /api/v1/clusters/{id}/usage", usage)
	for _, sample := range web.Samples() {
		mux.HandleFunc("GET /"+sample.Name, func(w http.ResponseWriter, r *http.Request) { show(w, r, sample) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", contentSecurityPolicy)
		mux.ServeHTTP(w, r)
	})
}

func frame(r *http.Request) web.Frame {
	l := web.NewLocalizer(r.URL.Query().Get("lang"), r.Header.Get("Accept-Language"))
	return web.SampleFrame(l, "/clusters", time.Now())
}

// preview answers htmx while a form is filled in, so that the form can be tried out.
func preview(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p := web.SamplePreview(frame(r), web.ParseRequestForm(r.PostForm))
	component := web.NewRequestView(p)
	if r.Header.Get("HX-Request") == "true" {
		component = web.RequestPreview(p)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if p.Problem != nil {
		w.WriteHeader(http.StatusUnprocessableEntity)
	}
	if err := component.Render(r.Context(), w); err != nil {
		fmt.Fprintln(os.Stderr, "preview:", err)
	}
}

// usage answers what the chart of a sample draws.
func usage(w http.ResponseWriter, r *http.Request) {
	h := web.SampleHistory(r.URL.Query().Get("range"), time.Now())
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(map[string]any{"from": h.From, "to": h.To, "step_seconds": int(h.Step.Seconds()), "points": append([]rayslice.UsePoint{}, h.Points...)}); err != nil {
		fmt.Fprintln(os.Stderr, "usage:", err)
	}
}

func show(w http.ResponseWriter, r *http.Request, sample web.Sample) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := sample.View(frame(r)).Render(r.Context(), w); err != nil {
		fmt.Fprintln(os.Stderr, sample.Name, err)
	}
}

var index = template.Must(template.New("index").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Storybook · rayslice</title>
<link rel="stylesheet" href="{{.CSS}}"></head><body><main><h1>Storybook</h1><section class="panel"><table>
<tbody>{{range $s := .Samples}}<tr><th scope="row">{{$s.Name}}</th>{{range $.Languages}}<td><a href="/{{$s.Name}}?lang={{.Code}}">{{.Name}}</a></td>{{end}}</tr>
{{end}}</tbody></table></section></main></body></html>`))

func showIndex(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	data := map[string]any{"CSS": static.Path("app.css"), "Samples": web.Samples(), "Languages": web.Languages()}
	if err := index.Execute(w, data); err != nil {
		fmt.Fprintln(os.Stderr, "index:", err)
	}
}
