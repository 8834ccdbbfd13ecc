package k8s

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayslice/rayslice"
)

// refusal turns the API server's "no" into a reason people can read; zero when err is none, but a failure to be tried
// again or a conflict to be looked at anew.
func refusal(err error, namespace string) rayslice.Reason {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || away(err) {
		return rayslice.Reason{}
	}
	message := status.Status().Message
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return rayslice.Reason{}
	case apierrors.IsNotFound(err) && strings.HasPrefix(message, "namespaces "),
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return rayslice.Reason{Code: rayslice.ReasonNamespaceMissing, Args: map[string]any{"namespace": namespace}}
	case apierrors.IsNotFound(err):
		return rayslice.Reason{Code: rayslice.ReasonKubeRayMissing}
	case apierrors.IsForbidden(err):
		return rayslice.ReadRefusal(clean(message), rayslice.ReasonNamespaceRule)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return rayslice.ReadRefusal(clean(message), rayslice.ReasonAPIRefused)
	case apierrors.IsUnauthorized(err):
		return rayslice.Reason{Code: rayslice.ReasonNotPermitted}
	}
	return rayslice.Reason{Code: rayslice.ReasonApplyFailed}
}

// ensureNamespace makes the namespace when it is missing, and leaves one that exists alone but for our labels.
func (c *Controller) ensureNamespace(ctx context.Context, name string, labels map[string]string) error {
	if _, seen := c.namespaces.Load(name); seen {
		return nil
	}
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": name, "labels": labels},
	})
	if err != nil {
		return err
	}
	_, err = c.clients.core.CoreV1().Namespaces().Patch(ctx, name, types.ApplyPatchType, manifest, metav1.PatchOptions{FieldManager: FieldManager})
	if apierrors.IsConflict(err) {
		err = nil // it exists, and somebody else has labelled it
	}
	if err == nil {
		c.namespaces.Store(name, true)
	}
	return err
}
