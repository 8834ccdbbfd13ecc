package gpushare

import (
	_ "embed"
	"strconv"
	"strings"
)

//go:embed config.yaml
var configYAML string

// ConfigYAML is the scheduler configuration that enables the plugin in the default profile, for `kube-scheduler --config`.
func ConfigYAML(kubeconfig string) string {
	return strings.Replace(configYAML, `kubeconfig: ""`, "kubeconfig: "+strconv.Quote(kubeconfig), 1)
}
