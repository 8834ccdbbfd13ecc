package rayhead

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// handler answers one head's HTTP API from what look sees at each request.
func handler(look func() cluster, own *jobs) http.Handler {
	mux := http.NewServeMux()
	answer := func(pattern string, body func(cluster, *http.Request) any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			writeJSON(w, http.StatusOK, body(look(), r))
		})
	}
	answer("GET /api/version", func(c cluster, _ *http.Request) any { return c.versionAnswer() })
	answer("GET /api/cluster_status", func(c cluster, r *http.Request) any {
		if r.URL.Query().Get("format") == "1" {
			return c.clusterStatusTextAnswer()
		}
		return c.clusterStatusAnswer()
	})
	answer("GET /api/component_activities", func(c cluster, _ *http.Request) any { return c.activitiesAnswer() })
	answer("GET /api/v0/nodes", func(c cluster, _ *http.Request) any { return c.stateNodesAnswer() })
	answer("GET /api/v0/actors", func(c cluster, _ *http.Request) any { return c.stateActorsAnswer() })
	answer("GET /api/authentication_mode", func(cluster, *http.Request) any { return object{"authentication_mode": "disabled"} })
	own.routes(mux)
	mux.HandleFunc("GET /nodes", func(w http.ResponseWriter, r *http.Request) { nodes(w, r, look) })
	mux.HandleFunc("GET /api/gcs_healthz", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "success") })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { page(w) })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusNotFound, "404: Not Found") })
	return faulty(mux, look)
}

func nodes(w http.ResponseWriter, r *http.Request, look func() cluster) {
	if view := r.URL.Query().Get("view"); view != "summary" {
		writeJSON(w, http.StatusInternalServerError, object{"result": false, "msg": "Unknown view " + view, "data": object{}})
		return
	}
	writeJSON(w, http.StatusOK, look().nodesAnswer())
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller hung up
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

func page(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = io.WriteString(w, `<!doctype html><html lang="en"><head><title>Ray Dashboard</title></head><body><div id="root"></div></body></html>`)
}

// faulty puts the head's faults before its answers.
func faulty(next http.Handler, look func() cluster) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch faults := look().faults; {
		case faults[DeadDashboard]:
			<-r.Context().Done()
		case faults[HTMLDashboard]:
			page(w)
		case faults[RedirectDashboard]:
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
		case faults[HugeDashboard]:
			endless(w)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// endless writes a JSON answer without an end, until the caller hangs up.
func endless(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	chunk := strings.Repeat(`{"hostname": "node"}, `, 1<<10)
	_, err := io.WriteString(w, `{"result": true, "msg": "Node summary fetched.", "data": {"summary": [`)
	for err == nil {
		_, err = io.WriteString(w, chunk)
	}
}
