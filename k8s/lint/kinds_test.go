package lint_test

import (
	"strings"
	"testing"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s/lint"
)

// TestKinds writes what the rows of the field cases name in the other ways that people write it: each is found as well.
func TestKinds(t *testing.T) {
	inHead := func(resource string) []string {
		return []string{"memory: 8Gi}", "memory: 8Gi, " + resource + "}"}
	}
	limits := func(lines string) []string {
		return []string{limit, "                  " + lines + "\n                requests:", lastLine, "                requests:\n                  cpu: \"4\"\n"}
	}
	cpuGroup := func(told string) []string {
		return []string{limit, "                requests:", lastLine, "                requests:\n                  cpu: \"4\"\n", `num-gpus: "1"`, "num-gpus: " + told, ownEnv, ownEnv + "                - {name: NVIDIA_VISIBLE_DEVICES, value: void}\n"}
	}
	for name, tc := range map[string]struct {
		parts []string
		code  string // "" = nothing is wrong
	}{
		"B001 resources of Ray instead":     {[]string{numGPUs, "      rayStartParams: {num-cpus: \"4\"}\n"}, rayslice.FindingNoNumGPUs},
		"B001 null":                         {[]string{numGPUs, "      rayStartParams: null\n"}, rayslice.FindingNoNumGPUs},
		"B001 an empty value":               {[]string{`num-gpus: "1"`, `num-gpus: ""`}, rayslice.FindingNumGPUsDiffers},
		"B002 1.0":                          {[]string{`num-gpus: "1"`, `num-gpus: "1.0"`}, rayslice.FindingNumGPUsFraction},
		"B002 .5":                           {[]string{`num-gpus: "1"`, `num-gpus: ".5"`}, rayslice.FindingNumGPUsFraction},
		"B002 without quotes":               {[]string{`num-gpus: "1"`, `num-gpus: 0.5`}, rayslice.FindingNumGPUsFraction},
		"B002 1e0":                          {[]string{`num-gpus: "1"`, `num-gpus: "1e0"`}, rayslice.FindingNumGPUsFraction},
		"B002 500m":                         {[]string{`num-gpus: "1"`, `num-gpus: "500m"`}, rayslice.FindingNumGPUsFraction},
		"B002 on the head":                  {[]string{`num-gpus: "0", `, `num-gpus: "0.5", `}, rayslice.FindingNumGPUsFraction},
		"B002 in a group without GPUs":      {cpuGroup(`"0.5"`), rayslice.FindingNumGPUsFraction},
		"B002 a word":                       {cpuGroup(`all`), rayslice.FindingNumGPUsFraction},
		"B002 in Ray's resources":           {[]string{numGPUs, "      resources: {GPU: \"0.5\"}\n"}, rayslice.FindingNumGPUsFraction},
		"B004 the head counts one":          {[]string{`num-gpus: "0", `, `num-gpus: "1", `}, rayslice.FindingHeadNumGPUs},
		"B011 NVIDIA's":                     {[]string{"HF_HOME", "NVIDIA_VISIBLE_DEVICES"}, rayslice.FindingReservedEnv},
		"B011 the size":                     {[]string{"HF_HOME", "ALIYUN_COM_GPU_MEM_CONTAINER"}, rayslice.FindingReservedEnv},
		"B011 a library before all":         {[]string{"HF_HOME", "LD_PRELOAD"}, rayslice.FindingReservedEnv},
		"B011 in small letters":             {[]string{"HF_HOME", "cuda_visible_devices"}, rayslice.FindingReservedEnv},
		"B011 Ray's address":                {[]string{"HF_HOME", "RAY_ADDRESS"}, rayslice.FindingRayEnv},
		"B011 in a container that begins":   {[]string{podLine, strings.Replace(podLine, "spec:\n", "spec:\n          initContainers: [{name: i, image: x, env: [{name: CUDA_VISIBLE_DEVICES, value: \"3\"}]}]\n", 1)}, rayslice.FindingReservedEnv},
		"B014 00":                           {[]string{`num-gpus: "1"`, `num-gpus: "00"`}, rayslice.FindingNumGPUsZero},
		"B014 in Ray's resources":           {[]string{numGPUs, "      resources: {GPU: \"0\"}\n"}, rayslice.FindingNumGPUsZero},
		"B014 a group without GPUs may":     {cpuGroup(`"0"`), ""},
		"B017 without quotes":               {limits("nvidia.com/gpu: 0.25"), rayslice.FindingGPUFraction},
		"B017 250m":                         {limits("nvidia.com/gpu: 250m"), rayslice.FindingGPUFraction},
		"B017 25e-2":                        {limits("nvidia.com/gpu: 25e-2"), rayslice.FindingGPUFraction},
		"B017 a quarter of 100 %":           {limits("nvidia.com/gpu: 25%"), rayslice.FindingGPUFraction},
		"B017 on the head":                  {inHead("nvidia.com/gpu: 0.25"), rayslice.FindingGPUFraction},
		"B017 in requests":                  {[]string{limit, "                requests:", lastLine, "                requests:\n                  nvidia.com/gpu: \"0.25\"\n"}, rayslice.FindingGPUFraction},
		"B017 another's extended resource":  {limits("amd.com/gpu: 0.25"), rayslice.FindingGPUFraction},
		"B019 a blank":                      {[]string{limit, strings.Replace(limit, `"8"`, `" 8"`, 1)}, rayslice.FindingSliceSize},
		"B019 digits of another script":     {[]string{limit, strings.Replace(limit, `"8"`, "٨", 1)}, rayslice.FindingSliceSize},
		"B019 more than a number can hold":  {[]string{limit, strings.Replace(limit, `"8"`, "9223372036854775808", 1)}, rayslice.FindingSliceSize},
		"B019 in a sidecar":                 {[]string{lastLine, lastLine + "            - {name: side, image: x, resources: {limits: {aliyun.com/gpu-mem: 8G}}}\n"}, rayslice.FindingSliceSize},
		"B130 a service of the dashboard's": {[]string{headBody, headBody + "    serviceType: NodePort\n"}, rayslice.FindingExposed},
		"B131 a service of the client's":    {[]string{headBody, headBody + "    headService: {spec: {type: LoadBalancer, ports: [{name: client, port: 10001}]}}\n"}, rayslice.FindingExposed},
		"B130 a port of the node":           {[]string{"            image: rayproject/ray:2.52.0-py311\n            env: [{name: NVIDIA", "            image: rayproject/ray:2.52.0-py311\n            ports: [{containerPort: 8265, hostPort: 8265}]\n            env: [{name: NVIDIA"}, rayslice.FindingExposed},
		"B130 an address from outside":      {[]string{headBody, headBody + "    headService: {spec: {externalIPs: [1.2.3.4]}}\n"}, rayslice.FindingExposed},
	} {
		t.Run(name, func(t *testing.T) {
			found := []string{}
			for _, f := range lint.Check([]byte(change(t, tc.parts...)), catalogue()).Findings {
				if f.Code == tc.code {
					return
				}
				found = append(found, f.Code)
			}
			if tc.code != "" || len(found) > 0 {
				t.Errorf("found %q, want %s", found, tc.code)
			}
		})
	}
}

// TestWhatIsNoObject: of text, a list or a map without a kind is said what it is.
func TestWhatIsNoObject(t *testing.T) {
	for text, want := range map[string]struct{ kinds, got any }{
		"hello": {"", "text"}, "- a": {"", "list"}, "a: b": {"", "map"}, "12": {"", "int"}, "kind: Pod": {"Pod", nil}, "hello\n---\nkind: Pod": {"Pod", nil}, "": {"", nil},
	} {
		got := lint.Check([]byte(text), catalogue()).Findings
		if len(got) != 1 || got[0].Code != rayslice.FindingNoCluster || got[0].Args["kinds"] != want.kinds || got[0].Args["got"] != want.got {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
