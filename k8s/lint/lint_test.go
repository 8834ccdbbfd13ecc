package lint_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s/lint"
)

func catalogue() rayslice.Catalogue {
	return rayslice.Catalogue{
		Pools: []rayslice.Pool{
			{Name: "a10", Model: "NVIDIA A10", Mode: rayslice.ModeCGPU, CardGiB: 22, Sizes: []int{4, 8, 16}, MaxCards: 2,
				NodeSelector: map[string]string{"aliyun.accelerator/nvidia_name": "NVIDIA-A10"}},
			{Name: "a10-core", Model: "NVIDIA A10", Mode: rayslice.ModeCoreMem, CardGiB: 22, Sizes: []int{4, 8}, MaxCards: 1},
			{Name: "a100", Model: "NVIDIA A100", Mode: rayslice.ModeWhole, CardGiB: 80, MaxCards: 8},
		},
		Images: []rayslice.Image{{Name: "ray 2.52", Ref: "rayproject/ray:2.52.0-py311", RayVersion: "2.52.0", Python: "3.11"}},
		Limits: rayslice.DefaultLimits(),
	}
}

// sound is a cluster with a slice that has nothing wrong with it.
const sound = `# ours
apiVersion: ray.io/v1
kind: RayCluster
metadata:
  name: ablation
spec:
  rayVersion: 2.52.0 # as the image
  headGroupSpec:
    rayStartParams: {num-gpus: "0", num-cpus: "0"}
    template:
      spec:
        containers:
          - name: ray-head
            image: rayproject/ray:2.52.0-py311
            env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]
            resources:
              limits: {cpu: 2, memory: 8Gi}
  workerGroupSpecs:
    - groupName: slices
      replicas: 2
      minReplicas: 1
      maxReplicas: 4
      rayStartParams:
        num-gpus: "1"
      template:
        metadata:
          labels:
            team: vision
        spec:
          containers:
            - name: ray-worker
              image: rayproject/ray:2.52.0-py311
              env:
                - name: HF_HOME
                  value: /tmp/hf
              resources:
                limits:
                  cpu: "4"
                  memory: 16Gi
                  aliyun.com/gpu-mem: "8"
                requests:
                  aliyun.com/gpu-mem: "8"
`

// change replaces parts of the sound cluster, old and new by turns.
func change(t *testing.T, parts ...string) string {
	t.Helper()
	for i := 0; i < len(parts); i += 2 {
		if before := changed(parts[:i]); !strings.Contains(before, parts[i]) {
			t.Fatalf("nothing to replace: %q", parts[i])
		}
	}
	return changed(parts)
}

func changed(parts []string) string {
	text := sound
	for i := 0; i+1 < len(parts); i += 2 {
		text = strings.Replace(text, parts[i], parts[i+1], 1)
	}
	return text
}

// Lines of the sound cluster that are replaced often.
const (
	numGPUs  = "      rayStartParams:\n        num-gpus: \"1\"\n"
	podLine  = "        spec:\n          containers:\n            - name: ray-worker\n"
	lastLine = "                requests:\n                  aliyun.com/gpu-mem: \"8\"\n"
	limit    = "                  aliyun.com/gpu-mem: \"8\"\n                requests:"
	ownEnv   = "                - name: HF_HOME\n                  value: /tmp/hf\n"
	headEnv  = "            env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]\n"
	headBody = "  headGroupSpec:\n"
)

func TestASoundClusterHasNoFindings(t *testing.T) {
	for name, text := range map[string]string{
		"as it is": sound, "with a byte order mark": "\ufeff" + sound, "with carriage returns": strings.ReplaceAll(sound, "\n", "\r\n"),
		"comments only behind it": sound + "---\n# nothing\n", "with a ConfigMap": "kind: ConfigMap\napiVersion: v1\n---\n" + sound,
		"as JSON":   `{"apiVersion":"ray.io/v1","kind":"RayCluster","metadata":{"name":"a"},"spec":{"rayVersion":"2.52.0","headGroupSpec":{"rayStartParams":{},"template":{"spec":{"containers":[{"name":"h","image":"rayproject/ray:2.52.0","resources":{"limits":{"memory":"8Gi"}}}]}}}}}`,
		"in a list": "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimPrefix(sound, "# ours\n"), "\n", "\n  ") + "\n",
		"two cards": change(t, `num-gpus: "1"`, `num-gpus: "2"`, "team: vision", `aliyun.com/gpu-count: "2"`),
	} {
		if got := lint.Check([]byte(text), catalogue()); len(got.Findings) > 0 || got.Draft == nil {
			t.Errorf("%s: %+v, draft %v", name, got.Findings, got.Draft)
		}
	}
}

// ruleCase is a change of the sound cluster with the finding it must lead to.
type ruleCase struct {
	code, path string
	line       int
	parts      []string
	fixed      string   // a part of the text that the fix makes; "" = nothing mends it
	with       []string // codes that may stand beside it
}

func rules() map[string]ruleCase {
	const limits = "spec.workerGroupSpecs[0].template.spec.containers[0].resources.limits."
	const container = "spec.workerGroupSpecs[0].template.spec.containers[0]"
	const pod = "spec.workerGroupSpecs[0].template.spec."
	const params = "spec.workerGroupSpecs[0].rayStartParams"
	inPod := func(line string) []string {
		return []string{podLine, strings.Replace(podLine, "spec:\n", "spec:\n          "+line+"\n", 1)}
	}
	inContainer := func(lines string) []string { return []string{lastLine, lastLine + lines} }
	inHead := func(line string) []string { return []string{headBody, headBody + "    " + line + "\n"} }
	second := "            - name: side\n              image: busybox\n              env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]\n              resources: {limits: {aliyun.com/gpu-mem: 4}}\n"
	return map[string]ruleCase{
		"B001 no num-gpus":         {rayslice.FindingNoNumGPUs, params, 23, []string{numGPUs, "      rayStartParams: {}\n"}, "num-gpus: \"1\"", nil},
		"B001 no rayStartParams":   {rayslice.FindingNoNumGPUs, "spec.workerGroupSpecs[0]", 19, []string{numGPUs, ""}, "rayStartParams:\n        num-gpus: \"1\"", nil},
		"B001 two cards":           {rayslice.FindingNoNumGPUs, params, 23, []string{numGPUs, "      rayStartParams: {}\n", "team: vision", `aliyun.com/gpu-count: "2"`}, `num-gpus: "2"`, nil},
		"B002 fraction":            {rayslice.FindingNumGPUsFraction, params + ".num-gpus", 24, []string{`num-gpus: "1"`, `num-gpus: "0.5"`}, `num-gpus: "1"`, nil},
		"B014 zero":                {rayslice.FindingNumGPUsZero, params + ".num-gpus", 24, []string{`num-gpus: "1"`, `num-gpus: "0"`}, `num-gpus: "1"`, nil},
		"GiB as num-gpus":          {rayslice.FindingNumGPUsDiffers, params + ".num-gpus", 24, []string{`num-gpus: "1"`, `num-gpus: "8"`}, `num-gpus: "1"`, nil},
		"without quotes":           {rayslice.FindingWrongType, params + ".num-gpus", 24, []string{`num-gpus: "1"`, `num-gpus: 1`}, `num-gpus: "1"`, nil},
		"B017 quarter of a card":   {rayslice.FindingGPUFraction, limits + "nvidia.com/gpu", 40, []string{limit, "                  nvidia.com/gpu: \"0.25\"\n                requests:", lastLine, ""}, "", []string{rayslice.FindingUnknownField}},
		"B019 10G":                 {rayslice.FindingSliceSize, limits + "aliyun.com/gpu-mem", 40, []string{limit, strings.Replace(limit, `"8"`, "10G", 1)}, "aliyun.com/gpu-mem: \"10\"", nil},
		"B019 10Gi":                {rayslice.FindingSliceSize, limits + "aliyun.com/gpu-mem", 40, []string{limit, strings.Replace(limit, `"8"`, "10Gi", 1)}, "aliyun.com/gpu-mem: \"10\"", nil},
		"B019 8.5":                 {rayslice.FindingSliceSize, limits + "aliyun.com/gpu-mem", 40, []string{limit, strings.Replace(limit, `"8"`, "8.5", 1)}, "", nil},
		"B019 0":                   {rayslice.FindingSliceSize, limits + "aliyun.com/gpu-mem", 40, []string{limit, strings.Replace(limit, `"8"`, "0", 1)}, "", nil},
		"B019 -1":                  {rayslice.FindingSliceSize, limits + "aliyun.com/gpu-mem", 40, []string{limit, strings.Replace(limit, `"8"`, "-1", 1)}, "", nil},
		"B019 1e3":                 {rayslice.FindingSliceSize, limits + "aliyun.com/gpu-mem", 40, []string{limit, strings.Replace(limit, `"8"`, "1e3", 1)}, "", nil},
		"request is not the limit": {rayslice.FindingRequestsDiffer, "spec.workerGroupSpecs[0].template.spec.containers[0].resources.requests.aliyun.com/gpu-mem", 42, []string{lastLine, strings.Replace(lastLine, `"8"`, `"4"`, 1)}, "requests:\n                  aliyun.com/gpu-mem: \"8\"", nil},
		"request without limit":    {rayslice.FindingRequestsDiffer, "spec.workerGroupSpecs[0].template.spec.containers[0].resources.requests.aliyun.com/gpu-mem", 41, []string{limit, "                requests:"}, "memory: 16Gi\n                  aliyun.com/gpu-mem: \"8\"", nil},
		"slice on two containers":  {rayslice.FindingSliceTwice, pod + "containers[1]", 43, inContainer(second), "limits: {}", nil},
		"slice on the second":      {rayslice.FindingSliceNotFirst, pod + "containers[1]", 40, []string{limit + "\n                  aliyun.com/gpu-mem: \"8\"\n", second}, "aliyun.com/gpu-mem: \"4\"", nil},
		"B037 a third of a card":   {rayslice.FindingCoreStep, limits + "aliyun.com/gpu-core.percentage", 41, []string{limit, strings.Replace(limit, "\n", "\n                  aliyun.com/gpu-core.percentage: 33\n", 1)}, "percentage: \"35\"", nil},
		"compute alone":            {rayslice.FindingCoreAlone, limits + "aliyun.com/gpu-core.percentage", 40, []string{limit, "                  aliyun.com/gpu-core.percentage: 50\n                requests:", lastLine, ""}, "", []string{rayslice.FindingUnknownField}},
		"compute missing":          {rayslice.FindingCoreMissing, limits + "aliyun.com/gpu-mem", 41, inPod("nodeSelector: {ack.node.gpu.schedule: core_mem}"), "", nil},
		"no isolation":             {rayslice.FindingNotIsolated, pod + "nodeSelector.ack.node.gpu.schedule", 30, inPod("nodeSelector: {ack.node.gpu.schedule: share}"), "", nil},
		"B041 three halves":        {rayslice.FindingCardsUneven, "spec.workerGroupSpecs[0].template.metadata.labels.aliyun.com/gpu-count", 28, []string{"team: vision", `aliyun.com/gpu-count: "3"`, `num-gpus: "1"`, `num-gpus: "3"`}, "", nil},
		"compute over two cards":   {rayslice.FindingCardsCore, "spec.workerGroupSpecs[0].template.metadata.labels.aliyun.com/gpu-count", 28, []string{"team: vision", `aliyun.com/gpu-count: "2"`, `num-gpus: "1"`, `num-gpus: "2"`, limit, strings.Replace(limit, "\n", "\n                  aliyun.com/gpu-core.percentage: 50\n", 1)}, "", nil},
		"slice and card":           {rayslice.FindingMixedGPUs, limits + "nvidia.com/gpu", 41, []string{limit, strings.Replace(limit, "\n", "\n                  nvidia.com/gpu: 1\n", 1)}, "", nil},
		"resources in both ways":   {rayslice.FindingResourcesTwice, params + ".num-gpus", 25, []string{numGPUs, "      resources: {GPU: \"1\"}\n" + numGPUs}, "", nil},
		"B004 head counts":         {rayslice.FindingHeadNumGPUs, "spec.headGroupSpec", 8, []string{`num-gpus: "0", `, ""}, `num-gpus: "0"`, nil},
		"head sees all":            {rayslice.FindingNotVoid, "spec.headGroupSpec.template.spec.containers[0]", 13, []string{headEnv, ""}, "value: void", nil},
		"head with a slice":        {rayslice.FindingHeadSlice, "spec.headGroupSpec.template.spec.containers[0]", 13, []string{"memory: 8Gi}", "memory: 8Gi, aliyun.com/gpu-mem: 4}"}, "", nil},
		"B094 head of 1 GiB":       {rayslice.FindingHeadMemory, "spec.headGroupSpec.template.spec.containers[0].resources.limits.memory", 17, []string{"memory: 8Gi}", "memory: 1Gi}"}, "memory: 4Gi", nil},
		"B095 head without limit":  {rayslice.FindingHeadNoMemory, "spec.headGroupSpec.template.spec.containers[0]", 13, []string{"limits: {cpu: 2, memory: 8Gi}", "requests: {cpu: 2}"}, "memory: 4Gi", nil},
		"B011 card by hand":        {rayslice.FindingReservedEnv, container + ".env[1]", 36, []string{ownEnv, ownEnv + "                - {name: CUDA_VISIBLE_DEVICES, value: \"3\"}\n"}, "/tmp/hf\n              resources", nil},
		"all cards":                {rayslice.FindingReservedEnv, container + ".env[1]", 36, []string{ownEnv, ownEnv + "                - {name: NVIDIA_VISIBLE_DEVICES, value: all}\n"}, "/tmp/hf\n              resources", nil},
		"limit switched off":       {rayslice.FindingLimitOff, container + ".env[1]", 36, []string{ownEnv, ownEnv + "                - {name: CGPU_DISABLE, value: \"true\"}\n"}, "value: \"false\"", nil},
		"another head":             {rayslice.FindingRayEnv, container + ".env[1]", 36, []string{ownEnv, ownEnv + "                - {name: RAY_ADDRESS, value: other}\n"}, "/tmp/hf\n              resources", nil},
		"variables from elsewhere": {rayslice.FindingEnvFrom, container + ".envFrom", 43, inContainer("              envFrom: [{secretRef: {name: s}}]\n"), "", nil},
		"T27 privileged":           {rayslice.FindingPrivileged, container + ".securityContext.privileged", 43, inContainer("              securityContext: {privileged: yes}\n"), "securityContext: {}", nil},
		"T27 hostPath":             {rayslice.FindingHostPath, pod + "volumes[0].hostPath", 30, inPod("volumes: [{name: dev, hostPath: {path: /dev}}]"), "", nil},
		"T27 hostNetwork":          {rayslice.FindingHostNamespace, pod + "hostNetwork", 30, inPod("hostNetwork: true"), "        spec:\n          containers", nil},
		"hostPID":                  {rayslice.FindingHostNamespace, pod + "hostPID", 30, inPod("hostPID: true"), "        spec:\n          containers", nil},
		"hostIPC":                  {rayslice.FindingHostNamespace, pod + "hostIPC", 30, inPod("hostIPC: true"), "        spec:\n          containers", nil},
		"SYS_ADMIN":                {rayslice.FindingCapability, container + ".securityContext.capabilities.add[0]", 43, inContainer("              securityContext: {capabilities: {add: [SYS_ADMIN]}}\n"), "add: []", nil},
		"T27 serviceAccountName":   {rayslice.FindingServiceAccount, pod + "serviceAccountName", 30, inPod("serviceAccountName: admin"), "        spec:\n          containers", nil},
		"token mounted":            {rayslice.FindingAutomount, pod + "automountServiceAccountToken", 30, inPod("automountServiceAccountToken: true"), "automountServiceAccountToken: false", nil},
		"nodeName":                 {rayslice.FindingNodeName, pod + "nodeName", 30, inPod("nodeName: n1"), "        spec:\n          containers", nil},
		"schedulerName":            {rayslice.FindingSchedulerName, pod + "schedulerName", 30, inPod("schedulerName: mine"), "        spec:\n          containers", nil},
		"runtimeClassName":         {rayslice.FindingRuntimeClass, pod + "runtimeClassName", 30, inPod("runtimeClassName: runc"), "        spec:\n          containers", nil},
		"forged placement":         {rayslice.FindingAnnotation, "spec.workerGroupSpecs[0].template.metadata.annotations.scheduler.framework.gpushare.allocation", 27, []string{"          labels:\n", "          annotations: {scheduler.framework.gpushare.allocation: x}\n          labels:\n"}, "annotations: {}", nil},
		"devices by mounts":        {rayslice.FindingDeviceMount, container + ".volumeMounts[0].mountPath", 43, inContainer("              volumeMounts: [{name: d, mountPath: /var/run/nvidia-container-devices/all}]\n"), "", nil},
		"shell text":               {rayslice.FindingShellText, params + ".temp-dir", 25, []string{numGPUs, numGPUs + "        temp-dir: /tmp; curl evil\n"}, "", nil},
		"unknown parameter":        {rayslice.FindingStartParam, params + ".num-gpu", 25, []string{numGPUs, numGPUs + "        num-gpu: \"1\"\n"}, "", nil},
		"B130 LoadBalancer":        {rayslice.FindingExposed, "spec.headGroupSpec.serviceType", 9, inHead("serviceType: LoadBalancer"), "serviceType: ClusterIP", nil},
		"B130 NodePort":            {rayslice.FindingExposed, "spec.headGroupSpec.headService.spec.type", 9, inHead("headService: {spec: {type: NodePort}}"), "type: ClusterIP", nil},
		"B130 Ingress":             {rayslice.FindingExposed, "spec.headGroupSpec.enableIngress", 9, inHead("enableIngress: true"), "enableIngress: false", nil},
		"T27 unknown field":        {rayslice.FindingUnknownField, "spec.workerGroupSpecs[0].workers", 20, []string{"      replicas: 2\n", "      workers: 2\n      replicas: 2\n"}, "groupName: slices\n      replicas", nil},
		"same field twice":         {rayslice.FindingDuplicateKey, "spec.workerGroupSpecs[0].replicas", 21, []string{"      replicas: 2\n", "      replicas: 2\n      replicas: 3\n"}, "", nil},
		"old API version":          {rayslice.FindingAPIVersion, "apiVersion", 2, []string{"ray.io/v1", "ray.io/v1alpha1"}, "apiVersion: ray.io/v1\n", nil},
		"T27 wrong kind":           {rayslice.FindingNoCluster, "kind", 3, []string{"kind: RayCluster", "kind: Deployment"}, "", nil},
		"no head":                  {rayslice.FindingNoSpec, "spec", 6, []string{"  headGroupSpec:", "  headGroupSpc:"}, "", []string{rayslice.FindingUnknownField}},
		"no group name":            {rayslice.FindingNoSpec, "spec.workerGroupSpecs[0]", 19, []string{"groupName: slices\n      replicas", "replicas"}, "", nil},
		"bad name":                 {rayslice.FindingBadName, "metadata.name", 5, []string{"name: ablation", "name: Ablation_2"}, "", nil},
		"long name":                {rayslice.FindingBadName, "metadata.name", 5, []string{"name: ablation", "name: " + strings.Repeat("a", 54)}, "", nil},
		"long group":               {rayslice.FindingGroupNameLong, "spec.workerGroupSpecs[0].groupName", 19, []string{"groupName: slices", "groupName: " + strings.Repeat("a", 45)}, "", nil},
		"min above max":            {rayslice.FindingReplicas, "spec.workerGroupSpecs[0].replicas", 20, []string{"minReplicas: 1", "minReplicas: 3"}, "", nil},
		"no Ray version":           {rayslice.FindingRayVersion, "spec", 6, []string{"  rayVersion: 2.52.0 # as the image\n", ""}, "rayVersion: 2.52.0", nil},
		"another Ray version":      {rayslice.FindingImageVersion, "spec.rayVersion", 7, []string{"rayVersion: 2.52.0", "rayVersion: 2.9.0"}, "rayVersion: 2.52.0 # as the image", nil},
		"another image":            {rayslice.FindingImagesDiffer, container + ".image", 32, []string{"            - name: ray-worker\n              image: rayproject/ray:2.52.0", "            - name: ray-worker\n              image: rayproject/ray:2.9.0"}, "", nil},
		"groups of one name":       {rayslice.FindingGroupTwice, "spec.workerGroupSpecs[1].groupName", 43, []string{lastLine, lastLine + "    - groupName: slices\n      minReplicas: 0\n      maxReplicas: 1\n      template: {spec: {containers: [{name: w, image: \"rayproject/ray:2.52.0\", env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]}]}}\n"}, "groupName: slices-2", nil},
		"T27 two clusters":         {rayslice.FindingManyClusters, "", 45, []string{lastLine, lastLine + "---\n" + sound}, "", nil},
		"T27 tabs":                 {rayslice.FindingTabs, "", 7, []string{"spec:\n  rayVersion", "spec:\n\trayVersion"}, "", nil},
		"not YAML":                 {rayslice.FindingNotYAML, "", 5, []string{"name: ablation", "name: a: b"}, "", nil},
	}
}

// TestRules changes one thing of a sound cluster at a time: it is found by its line and its path, nothing else is, and the
// fix mends it and leaves a sound cluster behind.
func TestRules(t *testing.T) {
	tested := map[string]bool{}
	for name, tc := range rules() {
		tested[tc.code] = true
		t.Run(name, func(t *testing.T) {
			text := change(t, tc.parts...)
			report := lint.Check([]byte(text), catalogue())
			var found *rayslice.Finding
			for _, f := range report.Findings {
				switch {
				case f.Code == tc.code:
					found = &f
				case !slices.Contains(tc.with, f.Code):
					t.Errorf("also found %+v", f)
				}
			}
			if found == nil {
				t.Fatalf("not found; found %+v", report.Findings)
			}
			if found.Line != tc.line || found.Path != tc.path {
				t.Errorf("found at line %d, %s; want line %d, %s", found.Line, found.Path, tc.line, tc.path)
			}
			fixed, ok := lint.Fix(t.Context(), []byte(text), catalogue(), found.Key())
			switch {
			case ok != (tc.fixed != ""):
				t.Errorf("mended: %t", ok)
			case !ok:
				if string(fixed) != text {
					t.Error("changed without a fix")
				}
			case !strings.Contains(string(fixed), tc.fixed):
				t.Errorf("want %q in\n%s", tc.fixed, fixed)
			case !strings.HasPrefix(string(fixed), "# ours\n"):
				t.Error("the comment is gone")
			default:
				if left := lint.Check(fixed, catalogue()).Findings; len(left) > 0 {
					t.Errorf("left: %+v\n%s", left, fixed)
				}
			}
		})
	}
	for _, code := range []string{rayslice.FindingTooLarge, rayslice.FindingTooDeep, rayslice.FindingInItself, rayslice.FindingTooMuch, rayslice.FindingDocuments, rayslice.FindingMore, rayslice.FindingQuantityRange} {
		tested[code] = true // TestLimits
	}
	for _, code := range rayslice.FindingCodes() {
		if !tested[code] {
			t.Errorf("%s has no test", code)
		}
	}
}
