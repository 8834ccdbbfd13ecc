package fleet

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/rayslice/rayslice/sandbox/rayhead"
)

// Names of ours on the simulated nodes.
const (
	GroupLabel   = "sandbox.rayslice.io/group" // which group of the fleet file the node is of
	ManagedLabel = "type"                      // KWOK plays the kubelet of nodes where this is ManagedValue
	ManagedValue = "kwok"
)

// Nodes are the fleet's machines, whose kubelet listens on the port.
func (f Fleet) Nodes(kubeletPort int32) []*applycorev1.NodeApplyConfiguration {
	var nodes []*applycorev1.NodeApplyConfiguration
	for _, group := range f.NodeGroups {
		for _, name := range group.nodeNames() {
			nodes = append(nodes, group.node(name, kubeletPort))
		}
	}
	return nodes
}

func (g Group) node(name string, kubeletPort int32) *applycorev1.NodeApplyConfiguration {
	node := applycorev1.Node(name).
		WithLabels(g.labels(name)).
		WithSpec(applycorev1.NodeSpec()).
		WithStatus(applycorev1.NodeStatus().
			WithCapacity(g.resources()).
			WithAllocatable(g.resources()).
			// The API server reaches KWOK's kubelet by the first. KWOK drops all when one of the two is missing.
			WithAddresses(
				applycorev1.NodeAddress().WithType(corev1.NodeInternalIP).WithAddress("127.0.0.1"),
				applycorev1.NodeAddress().WithType(corev1.NodeHostName).WithAddress(name)).
			WithDaemonEndpoints(applycorev1.NodeDaemonEndpoints().
				WithKubeletEndpoint(applycorev1.DaemonEndpoint().WithPort(kubeletPort))))
	if len(g.Faults) > 0 {
		node.WithAnnotations(map[string]string{rayhead.FaultsAnnotation: strings.Join(g.Faults, ",")})
	}
	return node
}

func (g Group) labels(name string) map[string]string {
	labels := map[string]string{
		ManagedLabel:                     ManagedValue,
		GroupLabel:                       g.Name,
		corev1.LabelHostname:             name,
		corev1.LabelOSStable:             "linux",
		corev1.LabelArchStable:           "amd64",
		corev1.LabelTopologyRegion:       "cn-hangzhou",
		corev1.LabelTopologyZone:         "cn-hangzhou-i",
		"alibabacloud.com/nodepool-id":   "np-" + g.Name,
		corev1.LabelInstanceTypeStable:   g.InstanceType,
		"ack.node.gpu.schedule":          string(g.Mode),
		"ack.node.gpu.placement":         g.Placement,
		"aliyun.accelerator/nvidia_name": g.CardModel,
	}
	if g.Mode == None {
		labels["ack.node.gpu.schedule"] = ""
	} else {
		labels["aliyun.accelerator/nvidia_mem"] = fmt.Sprintf("%dMiB", g.CardMiB)
		labels["aliyun.accelerator/nvidia_count"] = strconv.Itoa(g.Cards)
	}
	if g.MaxPodsPerCard > 0 {
		labels["ack.node.gpu.max-pod"] = strconv.Itoa(g.MaxPodsPerCard)
	}
	for label, value := range labels {
		if value == "" {
			delete(labels, label)
		}
	}
	return labels
}

// resources are what a node offers, in the names of ACK's device plugins.
func (g Group) resources() corev1.ResourceList {
	resources := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse(g.CPU),
		corev1.ResourceMemory:           resource.MustParse(g.Memory),
		corev1.ResourceEphemeralStorage: resource.MustParse("200Gi"),
		corev1.ResourcePods:             *resource.NewQuantity(int64(g.MaxPods), resource.DecimalSI),
	}
	offer := func(name corev1.ResourceName, amount int) {
		resources[name] = *resource.NewQuantity(int64(amount), resource.DecimalSI)
	}
	switch g.Mode {
	case CGPU, CoreMem, Share:
		offer("aliyun.com/gpu-mem", g.Cards*g.GiBPerCard)
		offer("aliyun.com/gpu-count", g.Cards)
	case Whole:
		offer("nvidia.com/gpu", g.Cards)
	}
	if g.Mode == CoreMem {
		offer("aliyun.com/gpu-core.percentage", g.Cards*100)
	}
	return resources
}
