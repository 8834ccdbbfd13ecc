// Package gpushare is the sandbox's stand-in for ACK's share scheduler: a kube-scheduler plugin that fits GPU slices per
// physical card and records where it put them in the annotations ACK writes.
//
// Kubernetes itself sees one number per node, the sum over its cards, and would place a 16 GiB slice on a node whose four
// cards have 12 GiB left each. The plugin sees cards. It keeps no state a restart could lose: what is placed is read from
// the pods' annotations, and only placements on their way to the API server are held in memory.
package gpushare

import corev1 "k8s.io/api/core/v1"

// The names that ACK gives to shared GPUs on nodes and pods.
const (
	Memory corev1.ResourceName = "aliyun.com/gpu-mem"             // slice memory, whole units (GiB by default)
	Core   corev1.ResourceName = "aliyun.com/gpu-core.percentage" // slice compute, percent of one card
	Count  corev1.ResourceName = "aliyun.com/gpu-count"           // node: how many cards the sums are over

	ModeLabel      = "ack.node.gpu.schedule"  // node: how its cards are shared
	PlacementLabel = "ack.node.gpu.placement" // node: binpack (default) or spread over its cards
	MaxPodLabel    = "ack.node.gpu.max-pod"   // node: most pods per card
	CardsLabel     = "aliyun.com/gpu-count"   // pod: split the request over so many cards of one node

	AllocationAnnotation = "scheduler.framework.gpushare.allocation"   // {"container":{"card":units}}
	AssignedAnnotation   = "scheduler.framework.gpushare.assigned"     // "true" once placed
	AssumeTimeAnnotation = "scheduler.framework.gpushare.assume-time"  // nanoseconds since 1970
	CoreAnnotation       = "gpushare.alibabacloud.com/core-percentage" // {"container":{"card":percent}}
	DevicesAnnotation    = "gpushare.alibabacloud.com/device-resource" // {"card":units}: the node's cards
)
