package rayslice

import "fmt"

// LintReport is what a look at somebody's own YAML has found.
type LintReport struct {
	Findings []Finding     // by line
	Draft    *RequestDraft // the request it would become, without a team; nil when it holds no cluster, or more than one
	LeftOut  []string      // paths of what a request has no place for, e.g. "spec.headGroupSpec.template.spec.volumes"
}

// Errors returns how many findings are errors: what would be refused, or would undo a slice.
func (r LintReport) Errors() int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == SeverityError {
			n++
		}
	}
	return n
}

// Severity says how bad a finding is.
type Severity string

// The severities of findings.
const (
	SeverityError   Severity = "error"   // Kubernetes, KubeRay or the portal would refuse it, or the slice would not be one
	SeverityWarning Severity = "warning" // it would run, and not as most people mean it
)

// Finding is one thing that is wrong in a YAML file. The sentences stand in web/locales as lint_<code>, what to do as
// remedy_<code>.
type Finding struct {
	Line     int            `json:"line"`     // from 1
	Column   int            `json:"column"`   // from 1, in characters
	Document int            `json:"document"` // which document of the file, from 0
	Path     string         `json:"path"`     // where in it, e.g. "spec.workerGroupSpecs[0].rayStartParams.num-gpus"; "" = all of it
	Code     string         `json:"code"`     // one of FindingCodes
	Severity Severity       `json:"severity"`
	Args     map[string]any `json:"args,omitempty"` // numbers and names for the sentence
	Fix      []Patch        `json:"fix,omitempty"`  // what would mend it, in this order; none = somebody has to decide
}

// Key names a finding among those of a file, so that it can be found again after another look.
func (f Finding) Key() string { return fmt.Sprintf("%d %s %s", f.Document, f.Code, f.Path) }

// Patch is one operation of a JSON Patch (RFC 6902) on the document of a finding.
type Patch struct {
	Op    string `json:"op"`              // "add", "replace" or "remove"
	Path  string `json:"path"`            // JSON pointer, e.g. "/spec/workerGroupSpecs/0/rayStartParams/num-gpus"
	Value any    `json:"value,omitempty"` // for add and replace: text, a bool, a map or a list
}

// What keeps a file from being read.
const (
	FindingNotYAML   = "not_yaml"           // Args: problem, as the parser says it
	FindingTabs      = "tabs"               // tabs where YAML wants spaces
	FindingTooLarge  = "too_large"          // Args: max_kib
	FindingTooDeep   = "too_deep"           // Args: max
	FindingInItself  = "contains_itself"    // Args: name, of the anchor
	FindingTooMuch   = "too_many_values"    // more values than any cluster has, or aliases that multiply; Args: max
	FindingDocuments = "too_many_documents" // Args: max
	FindingMore      = "more_findings"      // Args: max, how many are shown
)

// What is no sound object of KubeRay.
const (
	FindingNoCluster     = "no_cluster"     // Args: kinds; got, what there is instead of an object of any kind
	FindingManyClusters  = "many_clusters"  // a request is one cluster
	FindingNoSpec        = "no_spec"        // Args: field
	FindingAPIVersion    = "api_version"    // Args: want, got
	FindingDuplicateKey  = "duplicate_key"  // Args: name
	FindingUnknownField  = "unknown_field"  // Args: name
	FindingWrongType     = "wrong_type"     // Args: want, got
	FindingQuantityRange = "quantity_range" // Args: name, value; more digits, or a larger exponent, than any quantity has
	FindingBadName       = "bad_name"       // Args: name, max
	FindingGroupTwice    = "group_twice"    // Args: name
	FindingGroupNameLong = "group_name_long"
	FindingReplicas      = "replicas"     // Args: min, max, replicas
	FindingRayVersion    = "ray_version"  // no rayVersion
	FindingImageVersion  = "image_ray"    // Args: image, version
	FindingImagesDiffer  = "images_other" // Args: image, head
)

// What is wrong with a slice, or with what Ray believes of it.
const (
	FindingNoNumGPUs       = "num_gpus_missing"   // Args: want
	FindingNumGPUsFraction = "num_gpus_fraction"  // Args: value
	FindingNumGPUsZero     = "num_gpus_zero"      // Args: want
	FindingNumGPUsDiffers  = "num_gpus_differs"   // Args: value, want
	FindingHeadNumGPUs     = "head_num_gpus"      // Ray would count what the head's node has
	FindingHeadSlice       = "head_slice"         // the head holds a GPU
	FindingNotVoid         = "not_void"           // Args: container; it sees every card of a GPU node
	FindingSliceSize       = "slice_size"         // Args: resource, value
	FindingGPUFraction     = "gpu_fraction"       // Args: resource, value
	FindingRequestsDiffer  = "requests_differ"    // Args: resource, limit, request
	FindingSliceTwice      = "slice_twice"        // Args: container, first
	FindingSliceNotFirst   = "slice_not_first"    // Args: container, first
	FindingCoreStep        = "core_percent_step"  // Args: value
	FindingCoreAlone       = "core_percent_alone" // without gpu-mem
	FindingCoreMissing     = "core_percent_missing"
	FindingCardsUneven     = "cards_uneven"   // Args: gib, cards
	FindingCardsCore       = "cards_core"     // compute is not divided over several cards
	FindingMixedGPUs       = "mixed_gpus"     // slices and whole cards in one pod
	FindingResourcesTwice  = "resources_both" // Args: name
	FindingNotIsolated     = "not_isolated"
)

// What undoes a slice, or opens the cluster or its node.
const (
	FindingReservedEnv    = "reserved_env"  // Args: name
	FindingRayEnv         = "ray_env"       // Args: name
	FindingLimitOff       = "cgpu_disabled" // Args: value
	FindingEnvFrom        = "env_from"
	FindingPrivileged     = "privileged"
	FindingHostPath       = "host_path"      // Args: path
	FindingHostNamespace  = "host_namespace" // Args: name
	FindingCapability     = "capability"     // Args: name
	FindingServiceAccount = "service_account"
	FindingAutomount      = "automount_token"
	FindingNodeName       = "node_name"
	FindingSchedulerName  = "scheduler_name" // Args: name
	FindingRuntimeClass   = "runtime_class"  // Args: name
	FindingAnnotation     = "annotation"     // Args: name
	FindingDeviceMount    = "device_mount"   // Args: path
	FindingStartParam     = "start_param"    // Args: name
	FindingShellText      = "shell_text"     // Args: name
	FindingExposed        = "exposed"        // Args: value
	FindingHeadNoMemory   = "head_memory_missing"
	FindingHeadMemory     = "head_memory_low" // Args: value, min
)

// FindingCodes returns every code there is, in the order of docs/import.md.
func FindingCodes() []string {
	return []string{
		FindingNotYAML, FindingTabs, FindingTooLarge, FindingTooDeep, FindingInItself, FindingTooMuch, FindingDocuments, FindingMore,
		FindingNoCluster, FindingManyClusters, FindingNoSpec, FindingAPIVersion, FindingDuplicateKey, FindingUnknownField, FindingWrongType,
		FindingQuantityRange, FindingBadName, FindingGroupTwice, FindingGroupNameLong, FindingReplicas, FindingRayVersion, FindingImageVersion, FindingImagesDiffer,
		FindingNoNumGPUs, FindingNumGPUsFraction, FindingNumGPUsZero, FindingNumGPUsDiffers, FindingHeadNumGPUs, FindingHeadSlice, FindingNotVoid,
		FindingSliceSize, FindingGPUFraction, FindingRequestsDiffer, FindingSliceTwice, FindingSliceNotFirst, FindingCoreStep, FindingCoreAlone,
		FindingCoreMissing, FindingCardsUneven, FindingCardsCore, FindingMixedGPUs, FindingResourcesTwice, FindingNotIsolated,
		FindingReservedEnv, FindingRayEnv, FindingLimitOff, FindingEnvFrom, FindingPrivileged, FindingHostPath, FindingHostNamespace,
		FindingCapability, FindingServiceAccount, FindingAutomount, FindingNodeName, FindingSchedulerName, FindingRuntimeClass, FindingAnnotation,
		FindingDeviceMount, FindingStartParam, FindingShellText, FindingExposed, FindingHeadNoMemory, FindingHeadMemory,
	}
}
