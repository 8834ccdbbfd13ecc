package k8s

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rayslice/rayslice"
)

func TestRefusal(t *testing.T) {
	clusters := schema.GroupResource{Group: "ray.io", Resource: "rayclusters"}
	forbid := func(why string) error { return apierrors.NewForbidden(clusters, "rs-x", errors.New(why)) }
	cases := map[string]struct {
		err      error
		want     rayslice.Reason
		wantAway bool
	}{
		"B085 quota": {forbid("exceeded quota: gpu, requested: count/rayclusters.ray.io=3, used: count/rayclusters.ray.io=139, limited: count/rayclusters.ray.io=140"),
			rayslice.Reason{Code: rayslice.ReasonNamespaceQuota, Args: map[string]any{"quota": "gpu", "resource": "count/rayclusters.ray.io", "requested": "3", "used": "139", "limited": "140"}}, false},
		"admission policy": {forbid("ValidatingAdmissionPolicy 'slices' with binding 'slices' denied request: no privileged pods"),
			rayslice.Reason{Code: rayslice.ReasonNamespaceRule, Detail: "ValidatingAdmissionPolicy 'slices' with binding 'slices' denied request: no privileged pods"}, false},
		"webhook": {apierrors.NewBadRequest(`admission webhook "v.example.com" denied the request: not today`),
			rayslice.Reason{Code: rayslice.ReasonNamespaceRule, Detail: "not today"}, false},
		"no right": {forbid(`User "system:serviceaccount:rayslice:portal" cannot patch resource "rayclusters" in API group "ray.io" in the namespace "team-vision"`),
			rayslice.Reason{Code: rayslice.ReasonNotPermitted}, false},
		"not known":         {apierrors.NewUnauthorized("token expired"), rayslice.Reason{Code: rayslice.ReasonNotPermitted}, false},
		"namespace missing": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "team-vision"), rayslice.Reason{Code: rayslice.ReasonNamespaceMissing, Args: map[string]any{"namespace": "team-vision"}}, false},
		"namespace going": {&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}}}},
			rayslice.Reason{Code: rayslice.ReasonNamespaceMissing, Args: map[string]any{"namespace": "team-vision"}}, false},
		"no KubeRay": {&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: "the server could not find the requested resource"}},
			rayslice.Reason{Code: rayslice.ReasonKubeRayMissing}, false},
		"invalid": {apierrors.NewInvalid(schema.GroupKind{Group: "ray.io", Kind: "RayCluster"}, "rs-x", field.ErrorList{field.Required(field.NewPath("spec"), "")}),
			rayslice.Reason{Code: rayslice.ReasonAPIRefused, Detail: `RayCluster.ray.io "rs-x" is invalid: spec: Required value`}, false},
		"broken webhook":           {apierrors.NewInternalError(errors.New("failed calling webhook")), rayslice.Reason{Code: rayslice.ReasonApplyFailed}, false},
		"conflict: look anew":      {apierrors.NewConflict(clusters, "rs-x", errors.New("conflict with kubectl")), rayslice.Reason{}, false},
		"exists: look anew":        {apierrors.NewAlreadyExists(clusters, "rs-x"), rayslice.Reason{}, false},
		"overloaded":               {apierrors.NewTooManyRequests("wait", 1), rayslice.Reason{}, true},
		"starting":                 {apierrors.NewServiceUnavailable("not yet"), rayslice.Reason{}, true},
		"connection refused":       {&url.Error{Op: "Patch", URL: "https://127.0.0.1", Err: errors.New("connection refused")}, rayslice.Reason{}, true},
		"reply cut":                {&url.Error{Op: "Patch", URL: "https://127.0.0.1", Err: io.ErrUnexpectedEOF}, rayslice.Reason{}, true},
		"too slow":                 {context.DeadlineExceeded, rayslice.Reason{}, true},
		"the portal is going down": {&url.Error{Op: "Patch", URL: "https://127.0.0.1", Err: context.Canceled}, rayslice.Reason{}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, refusal(tc.err, "team-vision")); diff != "" {
				t.Errorf("reason (-want +got):\n%s", diff)
			}
			if got := away(tc.err); got != tc.wantAway {
				t.Errorf("away %v, want %v", got, tc.wantAway)
			}
		})
	}
}

func TestLoadConfig(t *testing.T) {
	write := func(content string) string {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const good = `{"apiVersion":"v1","kind":"Config","current-context":"a","contexts":[{"name":"a","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:6443"}}],"users":[{"name":"u","user":{"token":"t"}}]}`
	cases := map[string]struct {
		path      string
		wantError string
	}{
		"good":       {write(good), ""},
		"none given": {"", "pass --kubeconfig FILE"},
		"no file":    {filepath.Join(t.TempDir(), "gone"), "does not exist: check the path"},
		"no context": {write(`{"apiVersion":"v1","kind":"Config"}`), "set its current-context"},
		"not YAML":   {write("{"), "cannot be used"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			config, err := LoadConfig(tc.path)
			switch {
			case tc.wantError == "" && (err != nil || config.Host != "https://127.0.0.1:6443"):
				t.Errorf("config %v, error %v", config, err)
			case tc.wantError != "" && (err == nil || !strings.Contains(err.Error(), tc.wantError) || strings.Contains(err.Error(), "\n")):
				t.Errorf("error %v, want one line with %q", err, tc.wantError)
			}
		})
	}
}
