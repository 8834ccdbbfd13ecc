package k8s

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/rayslice/rayslice"
)

// anyRequest draws a request that the portal would accept.
func anyRequest(t *rapid.T) rayslice.Request {
	draft := rayslice.RequestDraft{
		Team: "vision", Name: "n" + rapid.StringOfN(rapid.RuneFrom(nil, unicode.L, unicode.N, unicode.P, unicode.S), 0, 70, -1).Draw(t, "name"), Hours: 8,
		Head:   rayslice.Head{CPU: rapid.IntRange(1, 128).Draw(t, "head cpu"), MemoryGiB: rapid.IntRange(4, 1024).Draw(t, "head memory")},
		Groups: rapid.SliceOfN(rapid.Custom(anyGroup), 1, 5).Draw(t, "groups"),
		Env:    rapid.MapOfN(rapid.StringMatching(`[A-Z_][A-Z0-9_]{0,20}`), rapid.OneOf(rapid.String(), rapid.SampledFrom(nasty)), 0, 5).Draw(t, "env"),
	}
	for name := range draft.Env {
		if rayslice.ReservedEnv(name) || strings.ContainsRune(draft.Env[name], 0) {
			delete(draft.Env, name)
		}
	}
	draft.Normalize(testCatalogue())
	if err := draft.Validate(testCatalogue()); err != nil {
		t.Fatalf("drew a bad draft: %v", err)
	}
	r := requestOf(draft)
	r.ID = rayslice.NewRequestID()
	return r
}

func anyGroup(t *rapid.T) rayslice.Group {
	g := rayslice.Group{
		Workers: rapid.IntRange(1, 40).Draw(t, "workers"), CPU: rapid.IntRange(1, 128).Draw(t, "cpu"),
		MemoryGiB: rapid.IntRange(1, 1024).Draw(t, "memory"), Spread: rapid.Bool().Draw(t, "spread"),
	}
	if rapid.Bool().Draw(t, "autoscaled") {
		g.MinWorkers, g.MaxWorkers = rapid.IntRange(0, g.Workers).Draw(t, "min"), rapid.IntRange(g.Workers, 80).Draw(t, "max")
	}
	pools := testCatalogue().Pools
	i := rapid.IntRange(-1, len(pools)-1).Draw(t, "pool")
	if i < 0 {
		return g
	}
	g.Slice = rayslice.Slice{Pool: pools[i].Name, Cards: rapid.IntRange(1, pools[i].MaxCards).Draw(t, "cards")}
	if pools[i].Mode.Sliced() {
		g.GiB = rapid.SampledFrom(pools[i].Sizes).Draw(t, "size")
	}
	if pools[i].Mode == rayslice.ModeCoreMem {
		g.CorePercent = 5 * rapid.IntRange(1, 20).Draw(t, "percent")
	}
	return g
}

// nasty are values that shells, Kubernetes' expansion and YAML readers have an opinion on.
var nasty = []string{
	"$(HOME)", "$$(HOME)", "$$$(HOME)", "$", "$$", "a$", "$(", "${HOME}", "`id`", "'; id; '", "true", "no", "~", "null", "0o17", "017", "1_000", "1:20",
	"1e3", "0x1F", ".inf", "=", "<<", "!!binary aGk=", "&a", "*a", "- x", "# x", "a: b", " x ", "x\n", "\nx", "x\n\n", "\t", "\r\n", "\u0085", "\u2028", "\ufeff",
	"{a: b}", "[1]", "aliyun.com/gpu-mem: \"99\"", "multi\n  aliyun.com/gpu-mem: \"99\"\nline", "2024-01-01", "", "\"", "\\", "%x", "@x", "|", ">",
}

// TestRenderProperties holds for every request the portal would accept.
func TestRenderProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRequest(t)
		cluster := render(t, r)
		checkCharge(t, r, cluster)
		checkNamesFit(t, cluster)
		checkHead(t, r, cluster)
		for i, group := range r.Draft.Groups {
			checkWorkers(t, group, cluster.Spec.WorkerGroupSpecs[i])
		}
		for _, pod := range pods(cluster) {
			checkPod(t, r.Draft, pod)
		}
		for _, params := range allStartParams(cluster) {
			for key, value := range params {
				if !shellSafe.MatchString("--" + key + "=" + value) {
					t.Fatalf("rayStartParams %s=%s reaches the shell", key, value)
				}
			}
		}
	})
}

// shellSafe is a word in which bash finds nothing to do: quoted once, with no quote inside.
var shellSafe = regexp.MustCompile(`^--[a-z-]+=([0-9.]+|'[^'\n]*')$`)

// checkCharge: what the quota is charged is what Kubernetes can hand out at most, by the object's own numbers.
func checkCharge(t *rapid.T, r rayslice.Request, cluster *rayv1.RayCluster) {
	var got rayslice.Charge
	for _, group := range cluster.Spec.WorkerGroupSpecs {
		limits := group.Template.Spec.Containers[0].Resources.Limits
		mem, whole := limits[ResourceGPUMem], limits[ResourceGPU]
		got = got.Add(rayslice.Charge{GiB: int(mem.Value()), Cards: int(whole.Value())}.Times(int(*group.MaxReplicas)))
	}
	if got != r.Draft.Charge() {
		t.Fatalf("object can take %v, charged is %v", got, r.Draft.Charge())
	}
}

// checkNamesFit covers B087 and domain facts B.2: KubeRay cuts pod names, and rejects cluster names, that are longer.
func checkNamesFit(t *rapid.T, cluster *rayv1.RayCluster) {
	if len(cluster.Name) > 53 {
		t.Fatalf("name %s is longer than 53", cluster.Name)
	}
	for _, group := range cluster.Spec.WorkerGroupSpecs {
		if prefix := cluster.Name + "-" + group.GroupName; len(prefix) > 50 {
			t.Fatalf("pod names begin with %s, longer than 50", prefix)
		}
	}
}

// checkHead covers B004, B094 and B095.
func checkHead(t *rapid.T, r rayslice.Request, cluster *rayv1.RayCluster) {
	head := cluster.Spec.HeadGroupSpec
	want := map[string]string{"num-cpus": "0", "num-gpus": "0", "dashboard-host": "0.0.0.0"}
	if diff := cmp.Diff(want, head.RayStartParams); diff != "" {
		t.Fatalf("head's start params (-want +got):\n%s", diff)
	}
	if got := *head.Template.Spec.AutomountServiceAccountToken; got != r.Draft.Autoscaled() {
		t.Fatalf("head has a token: %v, autoscaled: %v", got, r.Draft.Autoscaled())
	}
	if memory := head.Template.Spec.Containers[0].Resources.Limits.Memory(); memory.Cmp(resource.MustParse("4Gi")) < 0 {
		t.Fatalf("head has %s", memory)
	}
	checkNoGPU(t, head.Template.Spec)
	checkAutoscaler(t, r, cluster.Spec)
}

func checkAutoscaler(t *rapid.T, r rayslice.Request, spec rayv1.RayClusterSpec) {
	options := spec.AutoscalerOptions
	if !r.Draft.Autoscaled() {
		if spec.EnableInTreeAutoscaling != nil || options != nil {
			t.Fatal("autoscaler without a reason")
		}
		return
	}
	if !*spec.EnableInTreeAutoscaling || options == nil || *options.IdleTimeoutSeconds <= 0 || *options.Version != rayv1.AutoscalerVersionV2 {
		t.Fatalf("autoscaler options = %v", options)
	}
	sidecar := corev1.PodSpec{Affinity: offGPUNodes(), Containers: []corev1.Container{{
		Name: "autoscaler", Env: options.Env, Resources: *options.Resources, SecurityContext: options.SecurityContext,
	}}}
	checkNoGPU(t, sidecar)
	checkContainer(t, sidecar.Containers[0])
}

// checkNoGPU: a pod without a slice sees no card and stays off nodes that have any.
func checkNoGPU(t *rapid.T, pod corev1.PodSpec) {
	for _, c := range pod.Containers {
		if values(c.Env, "NVIDIA_VISIBLE_DEVICES") != "void" {
			t.Fatalf("container %s can see cards: %v", c.Name, c.Env)
		}
		for name := range c.Resources.Limits {
			if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
				t.Fatalf("container %s asks for %s", c.Name, name)
			}
		}
	}
	terms := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 || terms[0].MatchExpressions[0].Key != "ack.node.gpu.schedule" || terms[0].MatchExpressions[0].Operator != corev1.NodeSelectorOpDoesNotExist {
		t.Fatalf("may run on GPU nodes: %v", terms)
	}
}

// checkWorkers covers B001, B002, B014 and B055.
func checkWorkers(t *rapid.T, group rayslice.Group, spec rayv1.WorkerGroupSpec) {
	pod, gpus := spec.Template.Spec, spec.RayStartParams["num-gpus"]
	limits, env := pod.Containers[0].Resources.Limits, pod.Containers[0].Env
	switch {
	case group.IsZero():
		if gpus != "0" {
			t.Fatalf("CPU group has num-gpus %q", gpus)
		}
		checkNoGPU(t, pod)
	case group.Whole():
		if _, set := spec.RayStartParams["num-gpus"]; set || limits.Name(ResourceGPU, resource.DecimalSI).Value() != int64(group.Cards) {
			t.Fatalf("whole cards: start params %v, limits %v", spec.RayStartParams, limits)
		}
	default:
		count := spec.Template.Labels["aliyun.com/gpu-count"]
		if gpus != fmt.Sprint(group.Cards) || values(env, "CGPU_DISABLE") != "false" || (count != "") != (group.Cards > 1) || count != "" && count != gpus {
			t.Fatalf("slice: num-gpus %q, gpu-count %q, env %v", gpus, count, env)
		}
		if want := fmt.Sprintf(`'{"slice_gib":%d}'`, group.GiB*group.Cards); spec.RayStartParams["resources"] != want {
			t.Fatalf("resources = %s, want %s", spec.RayStartParams["resources"], want)
		}
		if limits.Name(ResourceGPUCore, resource.DecimalSI).Value() != int64(group.CorePercent) {
			t.Fatalf("compute share: limits %v, asked %d", limits, group.CorePercent)
		}
	}
	if !group.IsZero() && values(env, "NVIDIA_VISIBLE_DEVICES") != "" {
		t.Fatal("NVIDIA_VISIBLE_DEVICES beats the device plugin")
	}
	if spread := pod.Affinity != nil && pod.Affinity.PodAntiAffinity != nil; spread != group.Spread {
		t.Fatalf("spread = %v, asked %v", spread, group.Spread)
	}
	if *pod.AutomountServiceAccountToken {
		t.Fatal("worker has a service account token")
	}
	if *spec.MinReplicas > *spec.Replicas || *spec.Replicas > *spec.MaxReplicas || int(*spec.MaxReplicas) != group.MaxWorkers {
		t.Fatalf("replicas %d ≤ %d ≤ %d", *spec.MinReplicas, *spec.Replicas, *spec.MaxReplicas)
	}
}

// checkPod holds for head and workers: one container, which is Ray's, no name of a variable twice, values arrive as written.
func checkPod(t *rapid.T, draft rayslice.RequestDraft, pod corev1.PodSpec) {
	if len(pod.Containers) != 1 || len(pod.InitContainers) != 0 || len(pod.Volumes) != 0 || pod.HostPID || pod.HostNetwork || pod.HostIPC {
		t.Fatalf("pod is not one plain container: %v", pod)
	}
	seen := map[string]bool{}
	for _, e := range pod.Containers[0].Env {
		if seen[e.Name] || e.ValueFrom != nil {
			t.Fatalf("variable %s twice, or from elsewhere", e.Name)
		}
		seen[e.Name] = true
		if want, theirs := draft.Env[e.Name]; theirs && expanded(e.Value) != want {
			t.Fatalf("variable %s arrives as %q, want %q", e.Name, expanded(e.Value), want)
		}
	}
	for name := range draft.Env {
		if !seen[name] {
			t.Fatalf("variable %s is missing", name)
		}
	}
	checkContainer(t, pod.Containers[0])
}

// checkContainer covers B083 and domain facts E.5.
func checkContainer(t *rapid.T, c corev1.Container) {
	for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
		if list.Cpu().IsZero() || list.Memory().IsZero() {
			t.Fatalf("container %s lacks CPU or memory: %v", c.Name, c.Resources)
		}
	}
	if diff := cmp.Diff(c.Resources.Limits, c.Resources.Requests); diff != "" {
		t.Fatalf("requests of %s are not its limits (-limits +requests):\n%s", c.Name, diff)
	}
	if diff := cmp.Diff(confined(), c.SecurityContext); diff != "" || *c.SecurityContext.AllowPrivilegeEscalation {
		t.Fatalf("container %s is not confined: %s", c.Name, diff)
	}
}

// TestYAMLSaysWhatIsApplied: the YAML people see, read strictly, is the object that is applied.
func TestYAMLSaysWhatIsApplied(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRequest(t)
		text, err := RenderYAML(r, testCatalogue())
		if err != nil {
			t.Fatal(err)
		}
		read := &rayv1.RayCluster{}
		if err := yaml.UnmarshalStrict([]byte(text), read); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		want := render(t, r)
		if diff := cmp.Diff(want, read); diff != "" {
			t.Fatalf("YAML reads as another object (-want +got):\n%s", diff)
		}
		for _, noise := range []string{"\nstatus:", "creationTimestamp:", "scaleStrategy:"} {
			if strings.Contains(text, noise) {
				t.Fatalf("YAML contains %s", noise)
			}
		}
		if again, _ := RenderYAML(r, testCatalogue()); again != text {
			t.Fatal("rendered twice, differs")
		}
	})
}

func pods(cluster *rayv1.RayCluster) []corev1.PodSpec {
	all := []corev1.PodSpec{cluster.Spec.HeadGroupSpec.Template.Spec}
	for _, group := range cluster.Spec.WorkerGroupSpecs {
		all = append(all, group.Template.Spec)
	}
	return all
}

func allStartParams(cluster *rayv1.RayCluster) []map[string]string {
	all := []map[string]string{cluster.Spec.HeadGroupSpec.RayStartParams}
	for _, group := range cluster.Spec.WorkerGroupSpecs {
		all = append(all, group.RayStartParams)
	}
	return all
}

// values returns the value of a variable; every value when it is set more than once.
func values(env []corev1.EnvVar, name string) string {
	var all []string
	for _, e := range env {
		if e.Name == name {
			all = append(all, e.Value)
		}
	}
	return strings.Join(all, "|")
}

// expanded does to a value what the kubelet does: $$ becomes $, and $(NAME) would be replaced.
func expanded(value string) string {
	var out strings.Builder
	for i := 0; i < len(value); i++ {
		switch {
		case value[i] != '$' || i+1 == len(value):
			out.WriteByte(value[i])
		case value[i+1] == '$':
			out.WriteByte('$')
			i++
		case value[i+1] == '(':
			out.WriteString("<expanded>")
			i++
		default:
			out.WriteByte('$')
		}
	}
	return out.String()
}
