package k8s

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rayslice/rayslice"
)

// Manifest returns the JSON to apply: the RayCluster as Render made it, without the empty fields that the Go types add
// (status, scaleStrategy, creation timestamps).
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
	var root yaml.Node
	if err := root.Encode(object); err != nil {
		return "", fmt.Errorf("encode RayCluster as YAML: %w", err)
	}
	explain(&root, "")
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(&root); err != nil {
		return "", fmt.Errorf("write RayCluster as YAML: %w", err)
	}
	return out.String(), encoder.Close()
}

// objectOf returns the cluster as plain maps, without status and without empty noise.
func objectOf(cluster *rayv1.RayCluster) (map[string]any, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cluster)
	if err != nil {
		return nil, fmt.Errorf("convert RayCluster %s: %w", cluster.Name, err)
	}
	delete(object, "status")
	dropNoise(object)
	return object, nil
}

// dropNoise removes null creation timestamps and empty scale strategies at any depth.
func dropNoise(value any) {
	switch value := value.(type) {
	case map[string]any:
		if value["creationTimestamp"] == nil {
			delete(value, "creationTimestamp")
		}
		if strategy, ok := value["scaleStrategy"].(map[string]any); ok && len(strategy) == 0 {
			delete(value, "scaleStrategy")
		}
		for _, child := range value {
			dropNoise(child)
		}
	case []any:
		for _, child := range value {
			dropNoise(child)
		}
	}
}

// reasons are the comments of RenderYAML, by the end of the path of a line. Members of env lists are known by name.
var reasons = []struct{ path, text string }{
	{"headGroupSpec.rayStartParams.num-cpus", "no tasks on the head"},
	{"headGroupSpec.rayStartParams.num-gpus", "the head has no GPU, whatever Ray would detect"},
	{"rayStartParams.num-gpus", "written out: KubeRay does not derive it from aliyun.com/gpu-mem"},
	{"rayStartParams.resources", "tasks can choose a worker by its GiB"},
	{"limits.aliyun.com/gpu-mem", "GiB of GPU memory; on this container only"},
	{"requests.aliyun.com/gpu-mem", "must equal the limit"},
	{"limits.aliyun.com/gpu-core.percentage", "percent of one card's compute"},
	{"requests.aliyun.com/gpu-core.percentage", "must equal the limit"},
	{"limits.nvidia.com/gpu", "whole cards; KubeRay tells Ray the number"},
	{"requests.nvidia.com/gpu", "must equal the limit"},
	{"labels.aliyun.com/gpu-count", "gpu-mem is split evenly over this many cards of one node"},
	{"env.CGPU_DISABLE.value", "an image cannot switch the limit off"},
	{"env.NVIDIA_VISIBLE_DEVICES.value", "no GPU here, whatever the image asks for"},
	{"nodeSelector." + LabelGPUMode, "nodes that share cards in this mode"},
	{"tolerations.key", "GPU nodes are often tainted with this"},
	{"nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.matchExpressions.key", "only on nodes without this GPU label"},
	{"podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution.topologyKey", "different nodes, so different cards"},
}

// cpuOnlyGPUs replaces the reason of num-gpus where the number is 0.
const cpuOnlyGPUs = "this group has no GPU, whatever Ray would detect"

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
		if !strings.HasSuffix(path, "."+reason.path) {
			continue
		}
		if reason.path == "rayStartParams.num-gpus" && value == "0" {
			return cpuOnlyGPUs
		}
		return reason.text
	}
	return ""
}
