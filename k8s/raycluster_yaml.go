package k8s

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rayslice/rayslice"
)

// Manifest returns the JSON to apply: the RayCluster as Render made it, without the empty fields that the Go types add
// (status, scaleStrategy), which would make an apply differ from what is stored.
func Manifest(cluster *rayv1.RayCluster) ([]byte, error) {
	object, err := objectOf(cluster)
	if err != nil {
		return nil, err
	}
	return json.Marshal(object)
}

// RenderYAML returns the same object as YAML for people, keys sorted, with a short reason behind each line that is
// about the GPU. `kubectl apply` takes it. Errors are those of Render.
func RenderYAML(request rayslice.Request, catalogue rayslice.Catalogue) (string, error) {
	cluster, err := Render(request, catalogue)
	if err != nil {
		return "", err
	}
	object, err := objectOf(cluster)
	if err != nil {
		return "", err
	}
	root, err := nodeOf(object)
	if err != nil {
		return "", fmt.Errorf("encode RayCluster as YAML: %w", err)
	}
	explain(root, "")
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(root); err != nil {
		return "", fmt.Errorf("write RayCluster as YAML: %w", err)
	}
	return out.String(), encoder.Close()
}

// objectOf returns the cluster as plain maps, as the API server stores what was applied: without status, and with a
// scale strategy only where there is one. An empty list of workers to delete stays, because the autoscaler leaves one
// behind and the list of groups conflicts as a whole with any that is not exactly alike.
func objectOf(cluster *rayv1.RayCluster) (map[string]any, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cluster)
	if err != nil {
		return nil, fmt.Errorf("convert RayCluster %s: %w", cluster.Name, err)
	}
	delete(object, "status")
	spec, _ := object["spec"].(map[string]any)
	groups, _ := spec["workerGroupSpecs"].([]any)
	for i := range groups {
		group, _ := groups[i].(map[string]any)
		switch doomed := cluster.Spec.WorkerGroupSpecs[i].ScaleStrategy.WorkersToDelete; {
		case doomed == nil:
			delete(group, "scaleStrategy")
		case len(doomed) == 0:
			group["scaleStrategy"] = map[string]any{"workersToDelete": []any{}}
		}
	}
	return object, nil
}

// nodeOf returns the value as YAML, keys sorted.
func nodeOf(v any) (*yaml.Node, error) {
	node := &yaml.Node{}
	switch v := v.(type) {
	case map[string]any:
		node.Kind = yaml.MappingNode
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := appendNodes(node, key, v[key]); err != nil {
				return nil, err
			}
		}
		return node, nil
	case []any:
		node.Kind = yaml.SequenceNode
		return node, appendNodes(node, v...)
	case bool:
		return scalar("!!bool", strconv.FormatBool(v)), nil
	case int64:
		return scalar("!!int", strconv.FormatInt(v, 10)), nil
	case string:
		if isPlain(v) {
			return scalar("!!str", v), nil
		}
		if strings.ContainsFunc(v, unicode.IsControl) { // as a block, text that begins with an empty line cannot be read back
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v, Style: yaml.DoubleQuotedStyle}, nil
		}
	}
	return node, node.Encode(v) // knows when text needs quotes
}

func scalar(tag, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
}

var (
	plainText = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._/-]*(:[A-Za-z0-9._/-]+)*$`)
	notText   = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"} // in one YAML version or another
)

// isPlain reports whether the text certainly needs no quotes. Asking yaml costs a document written and read for each word,
// which was half of the time of a request's page.
func isPlain(text string) bool {
	return plainText.MatchString(text) && !slices.Contains(notText, strings.ToLower(text))
}

func appendNodes(parent *yaml.Node, values ...any) error {
	for _, v := range values {
		child, err := nodeOf(v)
		if err != nil {
			return err
		}
		parent.Content = append(parent.Content, child)
	}
	return nil
}

// reasons are the comments of RenderYAML, by the end of a line's path and, where set, its value; the first that fits
// holds. Members of env lists are known by name.
var reasons = []struct{ path, value, text string }{
	{"headGroupSpec.rayStartParams.num-cpus", "", "no tasks on the head"},
	{"headGroupSpec.rayStartParams.num-gpus", "", "the head has no GPU, whatever Ray would detect"},
	{"rayStartParams.num-gpus", "0", "this group has no GPU, whatever Ray would detect"},
	{"rayStartParams.num-gpus", "", "written out: KubeRay does not derive it from aliyun.com/gpu-mem"},
	{"rayStartParams.resources", "", "tasks can choose a worker by its GiB"},
	{"limits.aliyun.com/gpu-mem", "", "GiB of GPU memory; on this container only"},
	{"requests.aliyun.com/gpu-mem", "", "must equal the limit"},
	{"limits.aliyun.com/gpu-core.percentage", "", "percent of one card's compute"},
	{"requests.aliyun.com/gpu-core.percentage", "", "must equal the limit"},
	{"limits.nvidia.com/gpu", "", "whole cards; KubeRay tells Ray the number"},
	{"requests.nvidia.com/gpu", "", "must equal the limit"},
	{"labels.aliyun.com/gpu-count", "", "gpu-mem is split evenly over this many cards of one node"},
	{"env.CGPU_DISABLE.value", "", "an image cannot switch the limit off"},
	{"env.NVIDIA_VISIBLE_DEVICES.value", "", "no GPU here, whatever the image asks for"},
	{"nodeSelector." + LabelGPUMode, string(rayslice.ModeShare), "these nodes share cards and enforce no limit"},
	{"nodeSelector." + LabelGPUMode, "", "only nodes that share cards in this mode"},
	{"tolerations.key", "", "GPU nodes are often tainted with this"},
	{"nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.matchExpressions.key", "", "only on nodes without this GPU label"},
	{"podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution.topologyKey", "", "different nodes, so different cards"},
}

// explain puts the reasons behind the lines they belong to.
func explain(node *yaml.Node, path string) {
	switch node.Kind {
	case yaml.SequenceNode:
		for _, item := range node.Content {
			explain(item, path+nameIn(item, path))
		}
	case yaml.MappingNode:
		for i := 0; i < len(node.Content); i += 2 {
			explain(node.Content[i+1], path+"."+node.Content[i].Value)
		}
	case yaml.ScalarNode:
		node.LineComment = reasonFor(path, node.Value)
	}
}

// nameIn returns what a member of an env list adds to its path.
func nameIn(item *yaml.Node, path string) string {
	if !strings.HasSuffix(path, ".env") {
		return ""
	}
	for i := 0; i < len(item.Content); i += 2 {
		if item.Content[i].Value == "name" {
			return "." + item.Content[i+1].Value
		}
	}
	return ""
}

func reasonFor(path, value string) string {
	for _, reason := range reasons {
		if strings.HasSuffix(path, "."+reason.path) && (reason.value == "" || reason.value == value) {
			return reason.text
		}
	}
	return ""
}
