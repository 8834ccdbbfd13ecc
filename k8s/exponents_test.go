package k8s

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	rayclient "github.com/ray-project/kuberay/ray-operator/pkg/client/clientset/versioned"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TestExponentsAreBounded: what a stranger writes into a RayCluster costs no reader of it minutes (T27), and nothing else of
// what the API server says changes.
func TestExponentsAreBounded(t *testing.T) {
	const cluster = `{"apiVersion":"ray.io/v1","kind":"RayCluster","metadata":{"name":"a","annotations":{"n":%[1]q}},"spec":{"headGroupSpec":{"rayStartParams":{},"template":{"spec":{"containers":[` +
		`{"name":"h","env":[{"name":"A","value":"1e-999999999"}],"resources":{"limits":{"memory":"%[2]s","cpu":"1E"}}}]}}}}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") != "" {
			fmt.Fprintf(w, `{"type":"ADDED","object":`+cluster+"}\n", "watched", "1e-999999999")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		fmt.Fprintf(w, `{"apiVersion":"ray.io/v1","kind":"RayClusterList","items":[`+cluster+","+cluster+"]}", `quotes " and \ and é`, "1e-999999999", "x", "8Gi")
	}))
	defer server.Close()
	client, err := rayclient.NewForConfig(&rest.Config{Host: server.URL, WrapTransport: boundExponents})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	list, err := client.RayV1().RayClusters("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	container := list.Items[0].Spec.HeadGroupSpec.Template.Spec.Containers[0]
	if got := container.Resources.Limits.Memory().String(); got != "1e-9" || container.Env[0].Value != "1e-999999999" || list.Items[0].Annotations["n"] != `quotes " and \ and é` {
		t.Errorf("memory %s, %+v", got, list.Items[0])
	}
	watch, err := client.RayV1().RayClusters("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	select {
	case event := <-watch.ResultChan(): // while the stream is open
		if event.Type != "ADDED" {
			t.Errorf("%+v", event)
		}
	case <-time.After(10 * time.Second):
		t.Error("nothing is passed on")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestOnlyMonstrousExponentsChange(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":"1e999","b":"-.5E-1000","c":"1e+0100"}`:                     `{"a":"1e99","b":"-.5E-99","c":"1e+99"}`,
		`{"a":"1e99","b":"8Gi","value":"1e999","c":["1e999"],"1e9999":1}`: `{"a":"1e99","b":"8Gi","value":"1e999","c":["1e99"],"1e99":1}`,
		`{"a":"x\"1e999","b":"\\","c":"1e999"}`:                           `{"a":"x\"1e999","b":"\\","c":"1e99"}`,
		`{"a":"` + strings.Repeat("x", 3*maxToken) + `","b":"1e999"}`:     `{"a":"` + strings.Repeat("x", 3*maxToken) + `","b":"1e99"}`,
		`{"a":"1e99`: `{"a":"1e99`, "": "",
	} {
		for range 20 {
			readers := []io.Reader{}
			for rest := text; rest != ""; { // in pieces, as a network brings them
				n := min(len(rest), 1+rand.IntN(max(1, len(rest)/2)))
				readers, rest = append(readers, strings.NewReader(rest[:n])), rest[n:]
			}
			body := &boundedBody{ReadCloser: io.NopCloser(iotest.OneByteReader(io.MultiReader(readers...))), chunk: make([]byte, 7)}
			got, err := io.ReadAll(body)
			if err != nil || string(got) != want {
				t.Fatalf("%v: %s, want %s", err, got, want)
			}
		}
	}
}
