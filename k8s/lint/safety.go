package lint

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rayslice/rayslice"
)

// head finds what is wrong with a head: memory that it dies of, GPUs that it counts or holds, and ways in for everybody.
func (c *checker) head(cl cluster, sliced bool) {
	head := cl.head
	if head.ray() == nil {
		return
	}
	c.headMemory(head)
	for _, container := range head.holders(gpuMem, gpuCore) {
		c.warn(rayslice.FindingHeadSlice, container, map[string]any{"container": nameOf(container)})
	}
	holds := len(head.holders(gpuMem, gpuCore, gpu)) > 0
	if told := head.params.get("num-gpus"); sliced && !holds && !counts(told, 0) && !unfit(told) {
		at := head.value
		if told != nil {
			at = told
		}
		c.warn(rayslice.FindingHeadNumGPUs, at, nil, set(head.value, "0", "rayStartParams", "num-gpus"))
	}
	c.exposed(head)
}

// headMemory holds the head's limit against the least that heads live with (ray-project/kuberay#528, #1943).
func (c *checker) headMemory(head group) {
	least := c.catalogue.Limits.MinHeadMemoryGiB
	if least == 0 {
		least = rayslice.DefaultLimits().MinHeadMemoryGiB
	}
	floor := resource.NewQuantity(int64(least)<<30, resource.BinarySI)
	a := amountOf(head.ray(), "memory")
	if !a.limit.there() {
		c.warn(rayslice.FindingHeadNoMemory, head.ray(), map[string]any{"min": least}, set(head.ray(), floor.String(), "resources", "limits", "memory"))
		return
	}
	limit, err := parseQuantity(a.limit.str())
	if err == nil && limit.Cmp(*floor) < 0 && limit.Value() < int64(least)*1e9 { // "4G" is meant well
		c.warn(rayslice.FindingHeadMemory, a.limit, map[string]any{"value": short(a.limit.str()), "min": least}, replace(a.limit, floor.String()))
	}
}

// exposed finds services and ingresses that let everybody run code in the cluster (ray-project/kuberay#1413).
func (c *checker) exposed(head group) {
	for _, kind := range []*value{head.get("serviceType"), head.get("headService", "spec", "type")} {
		if kind.str() == "LoadBalancer" || kind.str() == "NodePort" {
			c.fail(rayslice.FindingExposed, kind, map[string]any{"value": kind.str()}, replace(kind, "ClusterIP"))
		}
	}
	if outside := head.get("headService", "spec", "externalIPs"); len(outside.all()) > 0 {
		c.fail(rayslice.FindingExposed, outside, map[string]any{"value": "externalIPs"}, remove(outside))
	}
	if ingress := head.get("enableIngress"); ingress.yes() {
		c.fail(rayslice.FindingExposed, ingress, map[string]any{"value": "Ingress"}, replace(ingress, false))
	}
}

// pod finds what undoes slices, as domain facts E.4 lists it.
func (c *checker) pod(g group, sliced bool) {
	for _, name := range []string{"hostNetwork", "hostPID", "hostIPC"} {
		if v := g.pod.get(name); v.yes() {
			c.fail(rayslice.FindingHostNamespace, v, map[string]any{"name": name}, remove(v))
		}
	}
	for _, volume := range g.pod.get("volumes").all() {
		if v := volume.get("hostPath"); v.there() {
			c.fail(rayslice.FindingHostPath, v, map[string]any{"path": short(v.get("path").str())})
		}
	}
	for _, annotation := range g.meta.get("annotations").members() {
		if forged.MatchString(annotation.name) {
			c.fail(rayslice.FindingAnnotation, annotation, map[string]any{"name": short(annotation.name)}, remove(annotation))
		}
	}
	c.scheduling(g, sliced)
	c.account(g)
	for _, container := range slices.Concat(g.containers, g.inits) {
		c.container(g, container, sliced)
	}
}

// forged are annotations by which the scheduler records placements, and by which runtimes inject devices.
var forged = regexp.MustCompile(`^(scheduler\.framework\.gpushare\.|gpushare\.alibabacloud\.com/|ALIYUN_COM_|cdi\.k8s\.io/)`)

// scheduling finds what goes past the scheduler that counts cards.
func (c *checker) scheduling(g group, sliced bool) {
	if v := g.pod.get("nodeName"); v.there() {
		c.fail(rayslice.FindingNodeName, v, nil, remove(v))
	}
	if v := g.pod.get("schedulerName"); sliced && v.str() != "" && v.str() != "default-scheduler" {
		c.fail(rayslice.FindingSchedulerName, v, map[string]any{"name": short(v.str())}, remove(v))
	}
	if v := g.pod.get("runtimeClassName"); sliced && v.str() != "" {
		c.warn(rayslice.FindingRuntimeClass, v, map[string]any{"name": short(v.str())}, remove(v))
	}
}

func (c *checker) account(g group) {
	if v := g.pod.get("serviceAccountName"); v.str() != "" && v.str() != "default" {
		c.warn(rayslice.FindingServiceAccount, v, map[string]any{"name": short(v.str())}, remove(v))
	}
	if v := g.pod.get("automountServiceAccountToken"); v.yes() && !g.head {
		c.warn(rayslice.FindingAutomount, v, nil, replace(v, false))
	}
}

// deviceMounts is where a mounted file names a card to the NVIDIA runtime.
const deviceMounts = "/var/run/nvidia-container-devices"

func (c *checker) container(g group, container *value, sliced bool) {
	security := container.get("securityContext")
	if v := security.get("privileged"); v.yes() {
		c.fail(rayslice.FindingPrivileged, v, nil, remove(v))
	}
	for _, v := range security.get("capabilities", "add").all() {
		args := map[string]any{"name": short(v.str())}
		if slices.Contains(strong, strings.TrimPrefix(strings.ToUpper(v.str()), "CAP_")) {
			c.fail(rayslice.FindingCapability, v, args, remove(v))
		} else {
			c.warn(rayslice.FindingCapability, v, args, remove(v))
		}
	}
	for _, mount := range container.get("volumeMounts").all() {
		if v := mount.get("mountPath"); strings.HasPrefix(v.str(), deviceMounts) {
			c.fail(rayslice.FindingDeviceMount, v, map[string]any{"path": short(v.str())})
		}
	}
	for _, port := range container.get("ports").all() {
		if v := port.get("hostPort"); v.there() && v.str() != "0" {
			c.fail(rayslice.FindingExposed, v, map[string]any{"value": "hostPort"}, remove(v))
		}
	}
	if v := container.get("envFrom"); sliced && len(v.all()) > 0 {
		c.warn(rayslice.FindingEnvFrom, v, nil)
	}
	void := c.env(container)
	holds := amountOf(container, gpuMem).at() != nil || amountOf(container, gpuCore).at() != nil || amountOf(container, gpu).at() != nil
	if sliced && !holds && !void && container != g.holding() {
		c.warn(rayslice.FindingNotVoid, container, map[string]any{"container": nameOf(container)}, addEnv(container, "NVIDIA_VISIBLE_DEVICES", "void"))
	}
}

// strong are capabilities with which a container reaches devices and the limits of others.
var strong = []string{"ALL", "SYS_ADMIN", "SYS_RAWIO", "MKNOD", "SYS_MODULE", "BPF"}

// holding returns the Ray container of a group whose slice stands on another one by mistake: it is where the slice belongs.
func (g group) holding() *value {
	if g.want() > 0 {
		return g.ray()
	}
	return nil
}

func addEnv(container *value, name, text string) rayslice.Patch {
	entry := map[string]any{"name": name, "value": text}
	if env := container.get("env"); env.there() && env.items != nil {
		return rayslice.Patch{Op: "add", Path: env.pointer() + "/-", Value: entry}
	}
	return set(container, []any{entry}, "env")
}

// env finds variables that change which card a process sees, or where Ray connects. It reports whether the container says
// that it sees none.
func (c *checker) env(container *value) (void bool) {
	for _, entry := range container.get("env").all() {
		name, text := entry.get("name").str(), entry.get("value")
		args := map[string]any{"name": short(name), "value": short(text.str())}
		switch upper := strings.ToUpper(name); {
		case upper == "NVIDIA_VISIBLE_DEVICES" && text.str() == "void":
			void = true
		case upper == "CGPU_DISABLE" && text.str() == "false":
		case upper == "CGPU_DISABLE":
			c.fail(rayslice.FindingLimitOff, entry, args, limitOn(entry)...)
		case !rayslice.ReservedEnv(name):
		case connecting.MatchString(upper):
			c.warn(rayslice.FindingRayEnv, entry, args, remove(entry))
		case harmless.MatchString(upper):
		default:
			c.fail(rayslice.FindingReservedEnv, entry, args, remove(entry))
		}
	}
	return void
}

// limitOn makes an entry of the environment say "false", wherever it had its value from.
func limitOn(entry *value) []rayslice.Patch {
	var fix []rayslice.Patch
	if from := entry.get("valueFrom"); from != nil {
		fix = append(fix, remove(from))
	}
	return append(fix, set(entry, "false", "value"))
}

var (
	// connecting are variables that KubeRay sets, and by which Ray finds its head.
	connecting = regexp.MustCompile(`^(RAY_(ADDRESS|IP|PORT|CLUSTER_NAME|NODE_TYPE_NAME|CLOUD_INSTANCE_ID)|FQ_RAY_IP|KUBERAY_.*|KUBERNETES_.*)$`)
	// harmless are reserved in requests, and do nothing to a slice.
	harmless = regexp.MustCompile(`^(RAY_.*|NVIDIA_DRIVER_CAPABILITIES|NVIDIA_REQUIRE_.*)$`)
)

// startParams finds what KubeRay would paste into a shell, and parameters that `ray start` does not know.
func (c *checker) startParams(g group) {
	for _, param := range g.params.members() {
		args := map[string]any{"name": short(param.name), "value": short(param.str())}
		switch {
		case param.name == "resources" && quotedJSON.MatchString(param.str()):
		case shell.MatchString(param.name), shell.MatchString(variable.ReplaceAllString(param.str(), "")):
			c.fail(rayslice.FindingShellText, param, args)
		case !slices.Contains(rayStartFlags, param.name):
			c.warn(rayslice.FindingStartParam, param, args)
		}
	}
}

var (
	variable   = regexp.MustCompile(`\$[A-Za-z_][A-Za-z0-9_]*`) // as KubeRay's own samples pass a password
	shell      = regexp.MustCompile(`[;|&$<>(){}\\"'\s` + "`]")
	quotedJSON = regexp.MustCompile(`^('\{[^'$` + "`" + `]*\}'|"\{[^'$` + "`" + `]*\}"|'"\{[^'$` + "`" + `]*\}"')$`)
)

// rayStartFlags are the flags of `ray start` that KubeRay passes on (Ray 2.9 to 2.52).
var rayStartFlags = strings.Fields(`
	address port node-ip-address node-name head block num-cpus num-gpus memory object-store-memory resources labels
	object-manager-port node-manager-port gcs-server-port min-worker-port max-worker-port worker-port-list ray-client-server-port
	include-dashboard dashboard-host dashboard-port dashboard-agent-listen-port dashboard-agent-grpc-port dashboard-grpc-port
	runtime-env-agent-port metrics-export-port plasma-directory object-spilling-directory temp-dir storage autoscaling-config
	no-monitor no-redirect-output tracing-startup-hook ray-debugger-external disable-usage-stats enable-object-reconstruction
	log-style log-color system-config redis-username redis-password redis-shard-ports include-log-monitor`)
