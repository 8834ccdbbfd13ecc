// Package k8s is the Kubernetes side of rayslice: it renders requests as RayClusters, keeps them applied and reports
// what stands.
package k8s

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rayslice/rayslice"
)

// FieldManager is the name under which we apply objects.
const FieldManager = "rayslice"

// Labels and annotations of what we render. The RayCluster carries request and team; its pods carry all four labels.
const (
	LabelRequest    = "rayslice.io/request" // id of the request
	LabelTeam       = "rayslice.io/team"    // team that is charged
	LabelPool       = "rayslice.io/pool"    // pool the slice is cut from; pods without a GPU have none
	LabelSlice      = "rayslice.io/slice"   // what one pod has: "8GiB", "2x8GiB", "2cards", "cpu"
	AnnotationName  = "rayslice.io/name"    // display name, any text
	AnnotationOwner = "rayslice.io/owner"   // who asked, any text
)

// Extended resources, labels and container names of the field (domain facts A.1, A.2, B.4).
const (
	ResourceGPUMem  = corev1.ResourceName("aliyun.com/gpu-mem")             // GiB of shared cards
	ResourceGPUCore = corev1.ResourceName("aliyun.com/gpu-core.percentage") // percent of one card's compute
	ResourceGPU     = corev1.ResourceName("nvidia.com/gpu")                 // whole cards
	LabelGPUCount   = "aliyun.com/gpu-count"                                // pod label: gpu-mem lies on this many cards of one node
	LabelGPUMode    = "ack.node.gpu.schedule"                               // node label: sharing mode

	headContainer   = "ray-head"
	workerContainer = "ray-worker"
	sliceResource   = "slice_gib" // Ray custom resource by which tasks can choose a worker's size
)

// idleTimeout is how long an autoscaled worker may idle, seconds. Ray's own minute takes GPUs away between two cells
// of a notebook.
const idleTimeout = 300

// Render returns the RayCluster of a request. It is pure: the same request and catalogue give the same object, which
// is what the preview shows, the dry run answers and the reconciler applies. It needs the request's ID, Team,
// Namespace, Owner and normalized Draft. An *rayslice.Error of KindInvalid names the field when the draft does not fit
// the catalogue (any more).
func Render(request rayslice.Request, catalogue rayslice.Catalogue) (*rayv1.RayCluster, error) {
	if err := checkNames(request); err != nil {
		return nil, err
	}
	cluster := &rayv1.RayCluster{
		TypeMeta: metav1.TypeMeta{APIVersion: rayv1.GroupVersion.String(), Kind: "RayCluster"},
		ObjectMeta: metav1.ObjectMeta{
			Name:      request.ObjectName(),
			Namespace: request.Namespace,
			Labels:    map[string]string{LabelRequest: request.ID, LabelTeam: request.Team},
			Annotations: map[string]string{
				AnnotationName:  request.Draft.Name,
				AnnotationOwner: owner(request.Owner),
			},
		},
		Spec: rayv1.RayClusterSpec{RayVersion: request.Draft.RayVersion, HeadGroupSpec: renderHead(request)},
	}
	if request.Draft.Autoscaled() {
		autoscale(&cluster.Spec)
	}
	for i, group := range request.Draft.Groups {
		pool, err := poolOf(fmt.Sprintf("groups[%d]", i), group.Slice, catalogue)
		if err != nil {
			return nil, err
		}
		cluster.Spec.WorkerGroupSpecs = append(cluster.Spec.WorkerGroupSpecs, renderGroup(request, group, pool))
	}
	return cluster, checkStartParams(cluster.Spec)
}

func owner(u rayslice.User) string {
	if u.Email == "" {
		return u.Name
	}
	return fmt.Sprintf("%s <%s>", u.Name, u.Email)
}

// checkNames refuses what Kubernetes would refuse later, or what would undo the slice.
func checkNames(request rayslice.Request) error {
	var bad []rayslice.FieldError
	refuse := func(field, code string, problems []string) {
		if len(problems) > 0 {
			bad = append(bad, rayslice.FieldError{Field: field, Code: code, Args: map[string]any{"allowed": strings.Join(problems, "; ")}})
		}
	}
	refuse("id", rayslice.CodeCharacters, validation.IsDNS1035Label(request.ObjectName()))
	refuse("namespace", rayslice.CodeCharacters, validation.IsDNS1123Label(request.Namespace))
	refuse("team", rayslice.CodeCharacters, validation.IsValidLabelValue(request.Team))
	for _, name := range slices.Sorted(maps.Keys(request.Draft.Env)) {
		if rayslice.ReservedEnv(name) {
			bad = append(bad, rayslice.FieldError{Field: "env." + name, Code: rayslice.CodeReservedName, Args: map[string]any{"name": name}})
		}
	}
	for i, group := range request.Draft.Groups {
		refuse(fmt.Sprintf("groups[%d].name", i), rayslice.CodeCharacters, validation.IsDNS1035Label(group.Name))
	}
	return rayslice.Invalid(bad...)
}

// poolOf returns the pool of a slice and refuses a slice that the pool cannot serve: the catalogue may have changed
// since the request was checked. A slice without GPU has the zero Pool.
func poolOf(field string, slice rayslice.Slice, catalogue rayslice.Catalogue) (rayslice.Pool, error) {
	if slice.IsZero() {
		return rayslice.Pool{}, nil
	}
	refuse := func(name, code string, args map[string]any) (rayslice.Pool, error) {
		return rayslice.Pool{}, rayslice.Invalid(rayslice.FieldError{Field: field + "." + name, Code: code, Args: args})
	}
	pool, known := catalogue.Pool(slice.Pool)
	switch {
	case !known:
		return refuse("pool", rayslice.CodePoolUnknown, map[string]any{"pools": poolNames(catalogue)})
	case slice.Whole() && pool.Mode.Sliced():
		return refuse("slice_gib", rayslice.CodeSizeNotOffered, map[string]any{"sizes": fmt.Sprint(pool.Sizes)})
	case !slice.Whole() && !pool.Mode.Sliced():
		return refuse("slice_gib", rayslice.CodeWholeNoGiB, nil)
	case slice.Cards < 1, slice.Cards > 1 && slice.CorePercent > 0: // ACK does not divide compute over several cards
		return refuse("per_pod", rayslice.CodeCardsRange, map[string]any{"max": 1})
	case pool.Mode != rayslice.ModeCoreMem && slice.CorePercent != 0:
		return refuse("core_percent", rayslice.CodeCoreNotHere, map[string]any{"pool": pool.Name})
	case pool.Mode == rayslice.ModeCoreMem && slice.CorePercent < 5: // such nodes refuse memory-only pods
		return refuse("core_percent", rayslice.CodeCoreRequired, nil)
	}
	return pool, nil
}

func poolNames(catalogue rayslice.Catalogue) string {
	var names []string
	for _, pool := range catalogue.Pools {
		names = append(names, pool.Name)
	}
	return strings.Join(names, ", ")
}

// renderHead returns the head group: no GPU, no tasks, not on GPU nodes.
func renderHead(request rayslice.Request) rayv1.HeadGroupSpec {
	draft := request.Draft
	return rayv1.HeadGroupSpec{
		RayStartParams: map[string]string{"dashboard-host": "0.0.0.0", "num-cpus": "0", "num-gpus": "0"},
		Template: podTemplate(request, rayslice.Slice{}, corev1.PodSpec{
			Containers: []corev1.Container{{
				Name:            headContainer,
				Image:           draft.Image,
				Env:             environment(draft.Env, noGPU),
				Resources:       exactly(mainResources(draft.Head.CPU, draft.Head.MemoryGiB)),
				SecurityContext: confined(),
			}},
			Affinity: offGPUNodes(),
			// The autoscaler runs in the head pod and talks to the API server with the token KubeRay gives it.
			AutomountServiceAccountToken: new(draft.Autoscaled()),
		}),
	}
}

// renderGroup returns one worker group.
func renderGroup(request rayslice.Request, group rayslice.Group, pool rayslice.Pool) rayv1.WorkerGroupSpec {
	resources := mainResources(group.CPU, group.MemoryGiB)
	maps.Copy(resources, gpuResources(group.Slice))
	pod := corev1.PodSpec{
		Containers: []corev1.Container{{
			Name:            workerContainer,
			Image:           request.Draft.Image,
			Env:             environment(request.Draft.Env, gpuEnv(group.Slice)...),
			Resources:       exactly(resources),
			SecurityContext: confined(),
		}},
		AutomountServiceAccountToken: new(false),
	}
	if group.IsZero() {
		pod.Affinity = offGPUNodes()
	} else {
		pod.NodeSelector, pod.Tolerations = nodeSelector(pool), tolerations(resources)
	}
	if group.Spread {
		spread(&pod, request.ObjectName(), group.Name)
	}
	return rayv1.WorkerGroupSpec{
		GroupName:      group.Name,
		Replicas:       new(int32(group.Workers)),
		MinReplicas:    new(int32(group.MinWorkers)),
		MaxReplicas:    new(int32(group.MaxWorkers)),
		NumOfHosts:     1, // the CRD's default, written out so that an apply of the same list changes nothing
		RayStartParams: startParams(group.Slice),
		Template:       podTemplate(request, group.Slice, pod),
	}
}

// startParams says what Ray shall believe it has. KubeRay derives a GPU count from nvidia.com/gpu and from nothing
// else we use, so slices need it written out; it goes into rayStartParams and not into the group's resources, which
// Ray's autoscaler does not read (domain facts B.1).
func startParams(slice rayslice.Slice) map[string]string {
	switch {
	case slice.IsZero():
		return map[string]string{"num-gpus": "0"}
	case slice.Whole():
		return map[string]string{}
	}
	return map[string]string{
		"num-gpus": strconv.Itoa(slice.Cards),
		// Single quotes survive the shell, KubeRay's own JSON parser and Ray's autoscaler alike; the documented
		// "{\"…\"}" form fails in the second.
		"resources": fmt.Sprintf(`'{"%s":%d}'`, sliceResource, slice.GiB*slice.Cards),
	}
}

// startParamValues is what may stand in rayStartParams: KubeRay pastes keys and values unquoted into a shell command.
var startParamValues = map[string]*regexp.Regexp{
	"dashboard-host": regexp.MustCompile(`^0\.0\.0\.0$`),
	"num-cpus":       regexp.MustCompile(`^[0-9]{1,4}$`),
	"num-gpus":       regexp.MustCompile(`^[0-9]{1,4}$`),
	"resources":      regexp.MustCompile(`^'\{"` + sliceResource + `":[0-9]{1,6}\}'$`),
}

// checkStartParams is the last gate before the shell inside KubeRay.
func checkStartParams(spec rayv1.RayClusterSpec) error {
	all := []map[string]string{spec.HeadGroupSpec.RayStartParams}
	for _, group := range spec.WorkerGroupSpecs {
		all = append(all, group.RayStartParams)
	}
	for _, params := range all {
		for key, value := range params {
			if allowed := startParamValues[key]; allowed == nil || !allowed.MatchString(value) {
				return fmt.Errorf("rayStartParams %s=%q is not on the list of what may reach the shell", key, value)
			}
		}
	}
	return nil
}

// podTemplate adds to a pod what head and workers share.
func podTemplate(request rayslice.Request, slice rayslice.Slice, pod corev1.PodSpec) corev1.PodTemplateSpec {
	labels := map[string]string{LabelRequest: request.ID, LabelTeam: request.Team, LabelSlice: sliceLabel(slice)}
	if !slice.IsZero() {
		labels[LabelPool] = slice.Pool
	}
	if slice.Cards > 1 && !slice.Whole() {
		labels[LabelGPUCount] = strconv.Itoa(slice.Cards)
	}
	for _, secret := range request.Draft.PullSecrets {
		pod.ImagePullSecrets = append(pod.ImagePullSecrets, corev1.LocalObjectReference{Name: secret})
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod}
}

func sliceLabel(slice rayslice.Slice) string {
	switch {
	case slice.IsZero():
		return "cpu"
	case slice.Whole():
		return fmt.Sprintf("%dcards", slice.Cards)
	case slice.Cards > 1:
		return fmt.Sprintf("%dx%dGiB", slice.Cards, slice.GiB)
	}
	return fmt.Sprintf("%dGiB", slice.GiB)
}

var (
	// noGPU hides every card from a container: CUDA images ask for all of them, and a value here wins (domain facts E.4).
	noGPU = corev1.EnvVar{Name: "NVIDIA_VISIBLE_DEVICES", Value: "void"}
	// limitOn beats an image that was built with the limit switched off.
	limitOn = corev1.EnvVar{Name: "CGPU_DISABLE", Value: "false"}
)

// gpuEnv returns the variables a worker needs beside the person's own. Workers with a GPU have no
// NVIDIA_VISIBLE_DEVICES: it would beat the one the device plugin injects.
func gpuEnv(slice rayslice.Slice) []corev1.EnvVar {
	switch {
	case slice.IsZero():
		return []corev1.EnvVar{noGPU}
	case slice.Whole():
		return nil
	}
	return []corev1.EnvVar{limitOn}
}

// environment returns the person's variables, sorted, and ours behind them.
func environment(env map[string]string, ours ...corev1.EnvVar) []corev1.EnvVar {
	var all []corev1.EnvVar
	for _, name := range slices.Sorted(maps.Keys(env)) {
		// Kubernetes expands $(NAME) and turns $$ into $; doubled, every $ arrives as it was written.
		all = append(all, corev1.EnvVar{Name: name, Value: strings.ReplaceAll(env[name], "$", "$$")})
	}
	return append(all, ours...)
}

func mainResources(cpu, memoryGiB int) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(cpu), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(memoryGiB)<<30, resource.BinarySI),
	}
}

func gpuResources(slice rayslice.Slice) corev1.ResourceList {
	count := func(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }
	switch {
	case slice.IsZero():
		return nil
	case slice.Whole():
		return corev1.ResourceList{ResourceGPU: count(slice.Cards)}
	case slice.CorePercent > 0:
		return corev1.ResourceList{ResourceGPUMem: count(slice.GiB * slice.Cards), ResourceGPUCore: count(slice.CorePercent)}
	}
	return corev1.ResourceList{ResourceGPUMem: count(slice.GiB * slice.Cards)}
}

// exactly makes limits and requests equal, as extended resources demand and as namespaces with a quota on CPU and
// memory need to admit the pod (jupyterhub/kubespawner#669).
func exactly(list corev1.ResourceList) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: list, Requests: list.DeepCopy()}
}

// confined is the least a Ray container needs. KubeRay copies it to its init container.
func confined() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// nodeSelector picks the pool's nodes, and among them only those in the pool's sharing mode, unless the pool names that
// label itself: a slice that lands on a node of another mode is refused there or not enforced.
func nodeSelector(pool rayslice.Pool) map[string]string {
	selector := map[string]string{}
	if pool.Mode.Sliced() {
		selector[LabelGPUMode] = string(pool.Mode)
	}
	maps.Copy(selector, pool.NodeSelector)
	return selector
}

// tolerations allows the taints that keep other pods off GPU nodes: by custom they are named after the resource.
func tolerations(resources corev1.ResourceList) []corev1.Toleration {
	keys := []corev1.ResourceName{ResourceGPU}
	if _, sliced := resources[ResourceGPUMem]; sliced {
		keys = append(keys, ResourceGPUMem)
	}
	var all []corev1.Toleration
	for _, key := range keys {
		all = append(all, corev1.Toleration{Key: string(key), Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	return all
}

// offGPUNodes keeps a pod without GPU away from nodes that have any. The mode label is on every node that ever shared
// a card, also set back to "default"; the other two are on nodes that only had whole cards (ACK, GPU feature discovery).
func offGPUNodes() *corev1.Affinity {
	var absent []corev1.NodeSelectorRequirement
	for _, label := range []string{LabelGPUMode, "aliyun.accelerator/nvidia_name", "nvidia.com/gpu.present"} {
		absent = append(absent, corev1.NodeSelectorRequirement{Key: label, Operator: corev1.NodeSelectorOpDoesNotExist})
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: absent}},
		},
	}}
}

// spread puts the workers of a group on different nodes, so on different cards. It is required: silently ignoring it
// is what people complain about (NVIDIA/gpu-operator#386).
func spread(pod *corev1.PodSpec, cluster, group string) {
	if pod.Affinity == nil {
		pod.Affinity = &corev1.Affinity{}
	}
	pod.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"ray.io/cluster": cluster, "ray.io/group": group}},
			TopologyKey:   corev1.LabelHostname,
		}},
	}
}

// autoscale switches Ray's in-tree autoscaler on. Its container runs in the head pod with the Ray image.
func autoscale(spec *rayv1.RayClusterSpec) {
	resources := exactly(corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("500m"),
		corev1.ResourceMemory: resource.MustParse("512Mi"),
	})
	spec.EnableInTreeAutoscaling = new(true)
	spec.AutoscalerOptions = &rayv1.AutoscalerOptions{
		Version:            autoscalerVersion(spec.RayVersion),
		Resources:          &resources,
		Env:                []corev1.EnvVar{noGPU},
		SecurityContext:    confined(),
		IdleTimeoutSeconds: new(int32(idleTimeout)),
	}
}

// autoscalerVersion names v2 where it is Ray's own default, from 2.47 on: only when it is named does KubeRay set the
// restart policy that v2 needs.
func autoscalerVersion(ray string) *rayv1.AutoscalerVersion {
	var major, minor int
	if _, err := fmt.Sscanf(ray, "%d.%d.", &major, &minor); err != nil || major < 2 || major == 2 && minor < 47 {
		return nil
	}
	return new(rayv1.AutoscalerVersionV2)
}
