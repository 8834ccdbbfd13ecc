// Command kube-scheduler is Kubernetes' own scheduler with the GPUShare plugin built in.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/rayslice/rayslice/sandbox/gpushare"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(gpushare.Name, gpushare.New))))
}
