// Command informers measures how much memory a cache of RayClusters and pods takes: whole typed objects, what the portal keeps
// of them, and unstructured objects.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	rayclient "github.com/ray-project/kuberay/ray-operator/pkg/client/clientset/versioned"
	rayinformers "github.com/ray-project/kuberay/ray-operator/pkg/client/informers/externalversions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	coreinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/bench"
	"github.com/rayslice/rayslice/k8s"
)

// options is what a person can choose.
type options struct {
	Bin       string `default:"bin" type:"path" help:"Folder with the sandbox's programs."`
	Dir       string `default:".bench" type:"path" help:"Folder for a sandbox; whatever sandbox is there is forgotten."`
	Fleet     string `default:"bench/fleet.yaml" type:"existingfile" help:"The sandbox's machines."`
	Catalogue string `default:"cmd/rayslice/catalogue.yaml" type:"existingfile" help:"What may be asked for."`
	Version   string `required:"" help:"Version of the portal, for the report."`
	Clusters  int    `default:"10000" help:"RayClusters."`
	Pods      int    `default:"4" help:"Pods of each."`
	Width     int    `default:"16" help:"Objects made at the same time."`
}

// Validate refuses what measures nothing.
func (o *options) Validate() error {
	if o.Clusters < 1 || o.Pods < 1 {
		return errors.New("--clusters and --pods must be at least 1")
	}
	return nil
}

func main() {
	var o options
	kong.Parse(&o, kong.Description("Measures the memory of informers."))
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-informers:", err)
		os.Exit(1)
	}
}

const namespace = "bench-informers"

// run measures on a sandbox of its own, and prints the report.
func run(ctx context.Context, o options) error {
	report := bench.NewReport("Memory of informers", "kube-apiserver", "etcd", "portal", "RayClusters", "pods", "object bytes")
	sandbox, err := bench.Up(ctx, o.Bin, o.Dir, "--fleet", o.Fleet)
	defer sandbox.Down()
	if err != nil {
		return err
	}
	for _, program := range []string{"kuberay-operator", "kwok"} { // they would work on the objects
		if _, err := sandbox.Pause(program); err != nil {
			return err
		}
	}
	config, err := k8s.LoadConfig(sandbox.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	report.SetPrograms(o.Bin, "kube-apiserver", "etcd")
	report.Set("portal", o.Version)
	report.Set("RayClusters", o.Clusters)
	report.Set("pods", o.Clusters*o.Pods)
	if err := fill(ctx, o, config, report); err != nil {
		return err
	}
	if err := measure(ctx, config, o, report); err != nil {
		return err
	}
	return report.Print(os.Stdout)
}

// fill makes the objects as the portal and KubeRay would.
func fill(ctx context.Context, o options, config *rest.Config, report *bench.Report) error {
	catalogue, err := bench.Catalogue(o.Catalogue)
	if err != nil {
		return err
	}
	draft, err := bench.Draft(catalogue, max(1, o.Pods-1))
	if err != nil {
		return err
	}
	if err := bench.MakeNamespace(ctx, config, namespace); err != nil {
		return err
	}
	maker, err := bench.NewMaker(config, catalogue, namespace)
	if err != nil {
		return err
	}
	begin := time.Now()
	err = bench.Parallel(ctx, o.Clusters, o.Width, func(ctx context.Context, i int) error {
		request := rayslice.Request{ID: rayslice.NewRequestID(), Draft: draft, Team: bench.Team, Namespace: namespace, CreatedAt: begin}
		if i == 0 {
			manifest, err := maker.Manifest(request)
			if err != nil {
				return err
			}
			report.Set("object bytes", len(manifest))
		}
		return maker.Cluster(ctx, request, o.Pods)
	})
	fmt.Fprintf(os.Stderr, "%d objects made in %.0f s\n", o.Clusters*(1+o.Pods), time.Since(begin).Seconds())
	return err
}

// measure runs one pair of informers after the other; each is alone in memory.
func measure(ctx context.Context, config *rest.Config, o options, report *bench.Report) error {
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ray, err := rayclient.NewForConfig(config)
	if err != nil {
		return err
	}
	raw, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	typed := func() []cache.SharedIndexInformer {
		return []cache.SharedIndexInformer{
			rayinformers.NewSharedInformerFactory(ray, 0).Ray().V1().RayClusters().Informer(),
			coreinformers.NewSharedInformerFactory(core, 0).Core().V1().Pods().Informer(),
		}
	}
	slim := func() []cache.SharedIndexInformer {
		pair := typed()
		clusters, pods := k8s.Slims()
		_, _ = pair[0].SetTransform(clusters), pair[1].SetTransform(pods) // they fail only for what has been started
		return pair
	}
	unstructured := func() []cache.SharedIndexInformer {
		factory := dynamicinformer.NewDynamicSharedInformerFactory(raw, 0)
		return []cache.SharedIndexInformer{factory.ForResource(bench.RayClusters).Informer(), factory.ForResource(bench.Pods).Informer()}
	}
	for _, way := range []struct {
		name string
		make func() []cache.SharedIndexInformer
	}{{"unstructured", unstructured}, {"typed, whole", typed}, {"typed, as the portal keeps it", slim}} {
		if err := one(ctx, way.name, way.make(), o, report); err != nil {
			return err
		}
	}
	return nil
}

// one runs informers until they have read everything, and notes what they keep.
func one(ctx context.Context, name string, informers []cache.SharedIndexInformer, o options, report *bench.Report) error {
	ctx, cancel := context.WithCancel(ctx)
	before, begin := inUse(), time.Now()
	ended := make(chan struct{}, len(informers))
	for _, i := range informers {
		go func() { i.RunWithContext(ctx); ended <- struct{}{} }()
	}
	synced := cache.WaitForCacheSync(ctx.Done(), informers[0].HasSynced, informers[1].HasSynced)
	took := time.Since(begin)
	after := inUse()
	held := []int{len(informers[0].GetIndexer().ListKeys()), len(informers[1].GetIndexer().ListKeys())}
	cancel()
	for range informers {
		<-ended
	}
	if !synced || held[0] != o.Clusters || held[1] < o.Clusters*o.Pods {
		return fmt.Errorf("%s: %d RayClusters and %d pods were read", name, held[0], held[1])
	}
	mib := float64(after-before) / (1 << 20)
	report.Result(name, "%.1f MiB, %.2f KiB per object; read in %.1f s", mib, mib*1024/float64(held[0]+held[1]), took.Seconds())
	return nil
}

// inUse returns the live heap in bytes, after a collection.
func inUse() int64 {
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
