package main

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"
)

// TestMain lets the test binary be the command itself, so that what is tested is what was compiled.
func TestMain(m *testing.M) {
	if os.Getenv("SANDBOX_TEST_COMMAND") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

var rayClusters = schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayclusters"}

// Every pod runs after delay ± jitter, which a test need not wait for.
const fastPace = "podStart: {delay: 200ms, jitter: 100ms}\npodStop: {delay: 100ms, jitter: 0s}\n"

// story is one sandbox, of which the subtests tell what happens one after the other.
type story struct {
	*testing.T
	dir, bin string
}

func TestSandbox(t *testing.T) {
	bin := os.Getenv("SANDBOX_BIN")
	if bin == "" {
		const reason = "SANDBOX_BIN does not name the folder with the control plane's programs: run `make sandbox` and set it"
		if os.Getenv("CI") == "true" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	dir := filepath.Join(t.TempDir(), "sandbox")
	s := func(t *testing.T) *story { return &story{t, dir, bin} }
	t.Cleanup(func() { _, _ = s(t).command("reset") })
	s(t).writeFleet(fastPace, string(defaultFleet))

	steps := []struct {
		name string
		tell func(*story)
	}{
		{"up from nothing", func(s *story) { s.up("--detach") }},
		{"a second up in the folder is refused", (*story).refuseSecond},
		{"the database is the product's", (*story).useDatabase},
		{"a RayCluster becomes ready", (*story).runRayCluster},
		{"admission is real", (*story).tryAdmission},
		{"the portal may nothing by itself", (*story).tryPortal},
		{"a component that dies comes back", (*story).killComponent},
		{"machines are drained, killed and revived", (*story).loseMachines},
		{"down leaves no process", (*story).down},
		{"up again finds everything, and an edited fleet", (*story).upAgain},
		{"kill -9 takes everything along, and up works", (*story).killSupervisor},
		{"reset forgets", (*story).reset},
	}
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) { step.tell(s(t)) }) {
			t.FailNow() // the rest of the story makes no sense
		}
	}
}

// command runs the sandbox's command line on the story's folder.
func (s *story) command(arguments ...string) (string, error) {
	command := exec.Command(os.Args[0], append(arguments, "--dir", s.dir)...)
	command.Env = append(os.Environ(), "SANDBOX_TEST_COMMAND=1")
	output, err := command.CombinedOutput()
	return string(output), err
}

func (s *story) must(arguments ...string) string {
	s.Helper()
	output, err := s.command(arguments...)
	if err != nil {
		s.Fatalf("sandbox %s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
	return output
}

func (s *story) up(arguments ...string) {
	s.Helper()
	began := time.Now()
	output := s.must(append([]string{"up", "--bin", s.bin}, arguments...)...)
	s.Logf("up in %.1f s:\n%s", time.Since(began).Seconds(), output)
	s.Log(s.must("status"))
}

func (s *story) state() *State {
	s.Helper()
	state, err := loadState(s.dir)
	if err != nil {
		s.Fatal(err)
	}
	return state
}

func (s *story) cluster() *cluster {
	s.Helper()
	cluster, err := openCluster(s.state().Kubeconfig)
	if err != nil {
		s.Fatal(err)
	}
	return cluster
}

// writeFleet writes the sandbox's fleet file with another pace.
func (s *story) writeFleet(pace, fleet string) {
	s.Helper()
	var lines []string
	for line := range strings.Lines(fleet) {
		if !strings.HasPrefix(line, "podSt") {
			lines = append(lines, line)
		}
	}
	if err := os.MkdirAll(s.dir, 0o711); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "fleet.yaml"), []byte(pace+strings.Join(lines, "")), 0o644); err != nil {
		s.Fatal(err)
	}
}

// await polls the cluster until the condition holds; the error it returned last is what it waited for.
func (s *story) await(condition func(context.Context) error) {
	s.Helper()
	var last error
	err := wait.PollUntilContextTimeout(s.Context(), poll, patience, true, func(ctx context.Context) (bool, error) {
		last = condition(ctx)
		return last == nil, nil
	})
	if err != nil {
		s.Fatalf("%v: %v", err, last)
	}
}

// processes are those whose command line names the folder, by id.
func (s *story) processes() map[string]string {
	found := map[string]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		content, err := os.ReadFile(file)
		command := strings.ReplaceAll(string(content), "\x00", " ")
		if err == nil && strings.Contains(command, s.dir) && filepath.Base(filepath.Dir(file)) != fmt.Sprint(os.Getpid()) {
			found[filepath.Base(filepath.Dir(file))] = command
		}
	}
	return found
}

func (s *story) refuseSecond() {
	output, err := s.command("up", "--bin", s.bin)
	want := fmt.Sprintf("another sandbox (process %d) is up in %s", s.state().PID, s.dir)
	if err == nil || !strings.Contains(output, want) || strings.Count(output, "\n") != 1 {
		s.Errorf("says %q, %v; want one line with %q", output, err, want)
	}
}

func (s *story) useDatabase() {
	bin, err := findPostgres("")
	if err != nil {
		s.Fatal(err)
	}
	for _, statement := range []string{"CREATE TABLE kept (word text); INSERT INTO kept VALUES ('still here')", "CREATE DATABASE another"} {
		if output, err := exec.Command(filepath.Join(bin, "psql"), s.state().DatabaseURL, "-c", statement).CombinedOutput(); err != nil {
			s.Errorf("%s: %v\n%s", statement, err, output)
		}
	}
	wrong, err := url.Parse(s.state().DatabaseURL)
	if err != nil {
		s.Fatal(err)
	}
	wrong.User = url.UserPassword(role, "wrong")
	if output, err := exec.Command(filepath.Join(bin, "psql"), wrong.String(), "-c", "SELECT 1").CombinedOutput(); err == nil {
		s.Errorf("a wrong password is accepted: %s", output)
	}
}

const rayCluster = `
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: story, namespace: default}
spec:
  rayVersion: "2.52.0"
  headGroupSpec:
    rayStartParams: {}
    template: {spec: {containers: [{name: ray-head, image: "ray:2.52.0", resources: {requests: {cpu: 1, memory: 4Gi}, limits: {cpu: 1, memory: 4Gi}}}]}}
  workerGroupSpecs:
    - groupName: workers
      replicas: 2
      minReplicas: 2
      maxReplicas: 2
      rayStartParams: {}
      template: {spec: {containers: [{name: ray-worker, image: "ray:2.52.0", resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 1, memory: 1Gi}}}]}}
`

func decoded(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

func (s *story) runRayCluster() {
	client := s.cluster().dynamic.Resource(rayClusters).Namespace("default")
	if _, err := client.Create(s.Context(), decoded(s.T, rayCluster), metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.await(s.rayClusterReady)
}

// rayClusterReady holds when KubeRay says so and three pods run.
func (s *story) rayClusterReady(ctx context.Context) error {
	cluster := s.cluster()
	object, err := cluster.dynamic.Resource(rayClusters).Namespace("default").Get(ctx, "story", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if state, _, _ := unstructured.NestedString(object.Object, "status", "state"); state != "ready" {
		return fmt.Errorf("the RayCluster is %q", state)
	}
	pods, err := cluster.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "ray.io/cluster=story"})
	if err != nil {
		return err
	}
	phases := map[corev1.PodPhase]int{}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil {
			phases[pod.Status.Phase]++
		}
	}
	if !maps.Equal(phases, map[corev1.PodPhase]int{corev1.PodRunning: 3}) {
		return fmt.Errorf("the pods are %v", phases)
	}
	return nil
}

// tryAdmission sees that the service account plugin, quotas and admission policies do their work.
func (s *story) tryAdmission() {
	cluster := s.cluster()
	pods := cluster.client.CoreV1().Pods("default")
	running, err := pods.List(s.Context(), metav1.ListOptions{LabelSelector: "ray.io/cluster=story"})
	if err != nil {
		s.Fatal(err)
	}
	if mounts := running.Items[0].Spec.Containers[0].VolumeMounts; !slices.ContainsFunc(mounts, func(mount corev1.VolumeMount) bool {
		return mount.MountPath == "/var/run/secrets/kubernetes.io/serviceaccount"
	}) {
		s.Errorf("a pod has no service account's token: %v", mounts)
	}
	kinds := []string{"resourcequotas", "validatingadmissionpolicies", "validatingadmissionpolicybindings"}
	for i, text := range []string{
		"apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: slices, namespace: default}\nspec: {hard: {requests.aliyun.com/gpu-mem: 8}}",
		"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: no-evil}\nspec:\n" +
			"  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}\n" +
			"  validations: [{expression: \"object.metadata.name != 'evil'\", message: this pod is evil}]",
		"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: no-evil}\n" +
			"spec: {policyName: no-evil, validationActions: [Deny]}",
	} {
		object := decoded(s.T, text)
		resource := object.GroupVersionKind().GroupVersion().WithResource(kinds[i])
		if _, err := cluster.dynamic.Resource(resource).Namespace(object.GetNamespace()).Create(s.Context(), object, metav1.CreateOptions{}); err != nil {
			s.Fatal(err)
		}
	}
	refused := func(name, memory, want string) {
		s.Helper()
		pod := &corev1.Pod{}
		text := "metadata: {name: " + name + "}\nspec: {containers: [{name: c, image: i, resources: {limits: {aliyun.com/gpu-mem: " + memory + "}}}]}"
		if err := yaml.Unmarshal([]byte(text), pod); err != nil {
			s.Fatal(err)
		}
		// Both take effect a moment after they were created.
		s.await(func(ctx context.Context) error {
			_, err := pods.Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("pod %s: %v, want it refused with %q", name, err, want)
			}
			return nil
		})
	}
	refused("greedy", "9", "exceeded quota: slices")
	refused("evil", "1", "this pod is evil")
}

func (s *story) tryPortal() {
	portal, err := openCluster(s.state().PortalKubeconfig)
	if err != nil {
		s.Fatal(err)
	}
	_, err = portal.client.CoreV1().Pods("default").List(s.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"system:serviceaccount:rayslice:rayslice"`) {
		s.Errorf("says %v, want the service account to be forbidden", err)
	}
}

func (s *story) killComponent() {
	first := s.state().Processes["kwok"]
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		s.Fatal(err)
	}
	s.await(func(context.Context) error {
		if second := s.state().Processes["kwok"]; second == 0 || second == first {
			return fmt.Errorf("KWOK's process is %d, it was %d", second, first)
		}
		return nil
	})
}

func (s *story) nodeOf(ctx context.Context, role string) (string, error) {
	pods, err := s.cluster().client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "ray.io/cluster=story,ray.io/node-type=" + role})
	if err != nil || len(pods.Items) == 0 {
		return "", fmt.Errorf("no %s pod: %w", role, err)
	}
	return pods.Items[0].Spec.NodeName, nil
}

func (s *story) loseMachines() {
	if output, err := s.command("drain", "no-such-node"); err == nil || !strings.Contains(output, `no node "no-such-node"; the fleet has cn-hangzhou.10.200.12.1,`) {
		s.Errorf("says %q, %v", output, err)
	}
	for _, command := range []string{"drain", "kill"} {
		node, err := s.nodeOf(s.Context(), "worker")
		if err != nil {
			s.Fatal(err)
		}
		s.must(command, node)
		s.await(func(ctx context.Context) error {
			pods, err := s.cluster().podsOn(ctx, node)
			if err != nil || len(pods) > 0 {
				return fmt.Errorf("after %s, %d pods on %s: %w", command, len(pods), node, err)
			}
			return s.rayClusterReady(ctx)
		})
		condition := map[string]string{"drain": "drained", "kill": "dead"}[command]
		if status := s.must("status"); !strings.Contains(status, condition) {
			s.Errorf("after %s, status shows no machine %s:\n%s", command, condition, status)
		}
		s.must("revive", node)
		if status := s.must("status"); strings.Contains(status, condition) {
			s.Errorf("after revive, status shows a machine %s:\n%s", condition, status)
		}
	}
}

func (s *story) down() {
	s.must("down")
	if left := s.processes(); len(left) > 0 {
		s.Errorf("left behind: %v", left)
	}
	if phase := s.state().Phase; phase != stopped {
		s.Errorf("the phase is %q", phase)
	}
}

func (s *story) upAgain() {
	ports := s.state().Ports
	a10, _, _ := strings.Cut(string(defaultFleet), "  - name: a10-4\n")
	s.writeFleet(fastPace, a10+"  - {name: more, namePrefix: cn-hangzhou.10.200.40., count: 2, mode: none, cpu: 8, memory: 32Gi}\n")
	s.up("--detach")
	if now := s.state().Ports; !maps.Equal(ports, now) {
		s.Errorf("the ports were %v and are %v", ports, now)
	}
	nodes, err := s.cluster().client.CoreV1().Nodes().List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	var names []string
	for _, node := range nodes.Items {
		names = append(names, node.Name)
	}
	want := []string{"cn-hangzhou.10.200.12.1", "cn-hangzhou.10.200.12.2", "cn-hangzhou.10.200.40.1", "cn-hangzhou.10.200.40.2"}
	if !slices.Equal(names, want) {
		s.Errorf("the nodes are %v, want %v", names, want)
	}
	s.await(s.rayClusterReady)
	s.findRow()
}

// findRow sees that the database still has what an earlier up wrote.
func (s *story) findRow() {
	bin, err := findPostgres("")
	if err != nil {
		s.Fatal(err)
	}
	output, err := exec.Command(filepath.Join(bin, "psql"), s.state().DatabaseURL, "-Atc", "SELECT word FROM kept").CombinedOutput()
	if err != nil || string(output) != "still here\n" {
		s.Errorf("the database has %q, %v", output, err)
	}
}

func (s *story) killSupervisor() {
	if err := syscall.Kill(s.state().PID, syscall.SIGKILL); err != nil {
		s.Fatal(err)
	}
	s.await(func(context.Context) error {
		if left := s.processes(); len(left) > 0 {
			return fmt.Errorf("outlive the supervisor: %v", left)
		}
		return nil
	})
	if status := s.must("status"); !strings.HasPrefix(status, "down:") {
		s.Errorf("status says %q", status)
	}
	s.up("--detach")
	s.await(s.rayClusterReady)
	s.findRow()
}

func (s *story) reset() {
	s.must("reset")
	if left := s.processes(); len(left) > 0 {
		s.Errorf("left behind: %v", left)
	}
	left, err := filepath.Glob(filepath.Join(s.dir, "*"))
	if err != nil || !slices.Equal(left, []string{filepath.Join(s.dir, "fleet.yaml")}) {
		s.Errorf("left %v, %v; want the edited fleet.yaml only", left, err)
	}
}
