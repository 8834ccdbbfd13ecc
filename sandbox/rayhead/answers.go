package rayhead

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// object is a JSON object of Ray's.
type object = map[string]any

// reply is the envelope of most of the dashboard's answers.
func reply(message string, data object) object {
	return object{"result": true, "msg": message, "data": data}
}

func (c cluster) versionAnswer() object {
	return object{
		"version":      "4",
		"ray_version":  c.version,
		"ray_commit":   digest("commit", c.version)[:40],
		"session_name": c.session,
	}
}

// nodesAnswer is /nodes?view=summary. A dead node stays in it with the figures of its last sign of life.
func (c cluster) nodesAnswer() object {
	summary, logical := []object{}, object{}
	for _, n := range c.nodes {
		summary = append(summary, n.summary(c.now))
		logical[n.id] = n.logicalResources()
	}
	return reply("Node summary fetched.", object{"summary": summary, "nodeLogicalResources": logical})
}

func (n rayNode) summary(now time.Time) object {
	memory := n.resources["memory"]
	inUse := float64(int64(memory * 0.2))
	answer := object{
		"now":          seconds(now),
		"hostname":     n.pod.Name,
		"ip":           n.pod.Status.PodIP,
		"cpu":          12.5,
		"cpus":         []int{int(n.resources["CPU"]), int(n.resources["CPU"])},
		"mem":          []any{int64(memory), int64(memory - inUse), 20.0, int64(inUse)},
		"shm":          9592832,
		"raylet":       n.raylet(),
		"bootTime":     seconds(startOf(n.pod)),
		"loadAvg":      [][]float64{{1, 1, 1}, {0.5, 0.5, 0.5}},
		"disk":         object{"/": object{"total": 107374182400, "used": 21474836480, "free": 85899345920, "percent": 20.0}},
		"diskIo":       []int64{0, 0, 0, 0},
		"diskIoSpeed":  []float64{0, 0, 0, 0},
		"tpus":         []any{},
		"network":      []int64{0, 0},
		"networkSpeed": []float64{0, 0},
		"cmdline":      []string{},
	}
	if n.gpus != nil {
		answer["gpus"] = n.gpuAnswers()
	}
	return answer
}

// gpuAnswers counts cards from 0, as every process in a container does.
func (n rayNode) gpuAnswers() []object {
	answers := []object{}
	for i, card := range n.gpus {
		processes := []object{} // inside a slice the driver names no process
		if card.whole && n.busy {
			processes = append(processes, object{"pid": n.pid(), "gpuMemoryUsage": card.usedMiB, "gpuUtilization": card.utilization})
		}
		answers = append(answers, object{
			"index":          i,
			"name":           card.name,
			"uuid":           card.uuid,
			"utilizationGpu": card.utilization,
			"memoryUsed":     card.usedMiB,
			"memoryTotal":    card.totalMiB,
			"processesPids":  processes,
		})
	}
	return answers
}

// pid is the process of the node's actor.
func (n rayNode) pid() int {
	sum := fnv.New32a()
	sum.Write([]byte(n.id))
	return 1000 + int(sum.Sum32()%30000)
}

func (n rayNode) raylet() object {
	raylet := object{
		"nodeId":                     n.id,
		"isHeadNode":                 n.head,
		"state":                      n.state(),
		"stateMessage":               n.stateMessage(),
		"nodeManagerAddress":         n.pod.Status.PodIP,
		"nodeManagerHostname":        n.pod.Name,
		"nodeName":                   n.pod.Status.PodIP,
		"resourcesTotal":             camelKeys(n.resources),
		"labels":                     object{"ray.io/node-id": n.id},
		"startTimeMs":                strconv.FormatInt(startOf(n.pod).UnixMilli(), 10),
		"endTimeMs":                  "0",
		"objectStoreUsedMemory":      0,
		"objectStoreAvailableMemory": int64(n.resources["object_store_memory"]),
		"coreWorkersStats":           []any{},
		"instanceId":                 "",
		"instanceTypeName":           "",
		"nodeTypeName":               "",
	}
	if !n.alive {
		reason, message := n.death()
		maps.Copy(raylet, object{
			"nodeManagerAddress": "", "nodeManagerHostname": "", "nodeName": "",
			"resourcesTotal": object{}, "labels": object{}, "startTimeMs": "0",
			"deathInfo": object{"reason": strings.ToUpper(strings.ReplaceAll(reason, " ", "_")), "reasonMessage": message},
		})
	}
	return raylet
}

// death says how Ray came to know that a node is gone.
func (n rayNode) death() (reason, message string) {
	if n.lost {
		return "Unexpected termination", "health check failed due to missing too many heartbeats"
	}
	return "Expected termination", "received SIGTERM"
}

func (n rayNode) state() string {
	if n.alive {
		return "ALIVE"
	}
	return "DEAD"
}

func (n rayNode) stateMessage() any {
	if n.alive {
		return nil
	}
	reason, message := n.death()
	return reason + ": " + message
}

// camelKeys spells keys as the dashboard does, which does not spare the names of resources: slice_gib becomes sliceGib.
func camelKeys(resources map[string]float64) object {
	answer := object{}
	for name, amount := range resources {
		var key strings.Builder
		for i, word := range strings.Split(name, "_") {
			if i > 0 && word != "" {
				word = strings.ToUpper(word[:1]) + word[1:]
			}
			key.WriteString(word)
		}
		answer[key.String()] = amount
	}
	return answer
}

// logicalResources lists what Ray schedules by, as "used/total name" lines; a dead node has none.
func (n rayNode) logicalResources() string {
	if !n.alive {
		return ""
	}
	used := map[string]float64{}
	for name := range n.resources {
		used[name] = n.used(name)
	}
	return strings.Join(usageLines(n.resources, used), "\n")
}

func usageLines(total, used map[string]float64) []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(total)) {
		switch {
		case strings.HasPrefix(name, "node:"):
		case name == "memory" || name == "object_store_memory":
			lines = append(lines, fmt.Sprintf("%s/%s %s", inBinary(used[name]), inBinary(total[name]), name))
		default:
			lines = append(lines, fmt.Sprintf("%.1f/%.1f %s", used[name], total[name], name))
		}
	}
	return lines
}

func inBinary(bytes float64) string {
	switch {
	case bytes >= 1<<30:
		return fmt.Sprintf("%.2fGiB", bytes/(1<<30))
	case bytes >= 1<<20:
		return fmt.Sprintf("%.2fMiB", bytes/(1<<20))
	}
	return fmt.Sprintf("%.0fB", bytes)
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// clusterStatusText is what `ray status` prints.
func (c cluster) clusterStatusText() string {
	var active []string
	for _, n := range c.alive() {
		active = append(active, " 1 node_"+n.id)
	}
	total, used := c.total()
	const rule = "---------------------------------------------------------------"
	return strings.Join([]string{
		"======== Autoscaler status: " + c.now.UTC().Format("2006-01-02 15:04:05.000000") + " ========",
		"Node status", rule,
		"Active:", strings.Join(active, "\n"),
		"Pending:", " (no pending nodes)",
		"Recent failures:", " (no failures)",
		"",
		"Resources", rule,
		"Total Usage:", " " + strings.Join(usageLines(total, used), "\n "),
		"",
		"From request_resources:", " (none)",
		"Pending Demands:", " (no resource demands)",
	}, "\n")
}

func (c cluster) clusterStatusTextAnswer() object {
	return reply("Got formatted cluster status.", object{"clusterStatus": c.clusterStatusText()})
}

func (c cluster) clusterStatusAnswer() object {
	total, used := c.total()
	active, names, byNode, types := object{}, object{}, object{}, []any{}
	for _, n := range c.alive() {
		active["node_"+n.id], names[n.id] = 1, "node_"+n.id
		own := map[string]float64{}
		for name := range n.resources {
			own[name] = n.used(name)
		}
		byNode[n.id] = usagePairs(n.resources, own)
		types = append(types, []any{n.resources, 1})
	}
	return reply("Got cluster status.", object{
		"autoscalingStatus": fmt.Sprintf("Cluster status: 0 nodes\n - ResourceUsage: %s\nWorker node types:", strings.Join(usageLines(total, used), ", ")),
		"autoscalingError":  nil,
		"clusterStatus": object{
			"time":                   seconds(c.now),
			"monitorPid":             100,
			"autoscalerUpdateTime":   0.001,
			"nonTerminatedNodesTime": 0.000004,
			"autoscalerReport": object{
				"activeNodes": active, "idleNodes": nil, "pendingNodes": []any{}, "pendingLaunches": object{},
				"failedNodes": []any{}, "pendingResources": object{}, "nodeActivities": nil, "legacy": true,
				"nodeAvailabilitySummary": object{"nodeAvailabilities": object{}}, "nodeTypeMapping": names,
			},
			"loadMetricsReport": object{
				"usage": usagePairs(total, used), "usageByNode": byNode, "nodeTypes": types, "headIp": nil,
				"resourceDemand": []any{}, "pgDemand": []any{}, "requestDemand": []any{},
				"nodeTypeMapping": nil, "idleTimeMap": nil,
			},
		},
	})
}

func usagePairs(total, used map[string]float64) object {
	pairs := object{}
	for name, amount := range camelKeys(total) {
		pairs[name] = []any{0.0, amount}
	}
	if gpus, ok := total["GPU"]; ok {
		pairs["GPU"] = []float64{used["GPU"], gpus}
	}
	return pairs
}

// busy lists the nodes on which an actor runs.
func (c cluster) busy() []rayNode {
	return slices.DeleteFunc(c.alive(), func(n rayNode) bool { return !n.busy })
}

// activitiesAnswer is /api/component_activities: one driver holds the actors as long as there are any.
func (c cluster) activitiesAnswer() object {
	driver := object{"is_active": "INACTIVE", "reason": nil, "timestamp": seconds(c.now), "last_activity_at": nil}
	if len(c.busy()) > 0 {
		driver["is_active"], driver["reason"] = "ACTIVE", "Number of active drivers: 1"
	}
	return object{"driver": driver}
}

// stateReply is the envelope of the state API.
func stateReply(rows []object) object {
	return reply("", object{"result": object{
		"total": len(rows), "num_after_truncation": len(rows), "num_filtered": len(rows),
		"result": rows, "partial_failure_warning": "", "warnings": nil,
	}})
}

func (c cluster) stateNodesAnswer() object {
	rows := []object{}
	for _, n := range c.nodes {
		rows = append(rows, object{
			"node_id": n.id, "node_ip": n.pod.Status.PodIP, "node_name": n.pod.Status.PodIP, "is_head_node": n.head,
			"state": n.state(), "state_message": n.stateMessage(), "resources_total": n.resources,
			"labels": object{"ray.io/node-id": n.id},
		})
	}
	return stateReply(rows)
}

func (c cluster) stateActorsAnswer() object {
	rows := []object{}
	for _, n := range c.busy() {
		rows = append(rows, object{
			"actor_id": digest("actor", n.id)[:24] + "01000000", "class_name": "Trainer", "name": "", "state": "ALIVE",
			"job_id": "01000000", "node_id": n.id, "pid": n.pid(), "ray_namespace": digest("namespace", n.id)[:8],
		})
	}
	return stateReply(rows)
}
