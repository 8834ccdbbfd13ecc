package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
)

// maxClusters is how many loopback addresses there are for heads.
const maxClusters = 60000

// headIP is where the head of a cluster listens, at the port that all heads have.
func headIP(cluster int) string {
	return fmt.Sprintf("127.66.%d.%d", cluster/250, cluster%250+1)
}

const headPort = "8265"

// workerIP is the address of a worker's pod. Nobody listens there.
func workerIP(cluster, slice int) string {
	n := cluster*200 + slice
	return fmt.Sprintf("10.%d.%d.%d", n/62500%250, n/250%250, n%250+1)
}

// run answers for the heads until stdin ends.
func (h *headsCommand) run() error {
	for cluster := range h.Clusters {
		listener, err := net.Listen("tcp", net.JoinHostPort(headIP(cluster), headPort))
		if err != nil {
			return err
		}
		body, asked := answer(cluster, h.Slices), atomic.Int64{}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/nodes" {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			used := strconv.FormatInt(1000+asked.Add(1)%900, 10)
			_, _ = io.WriteString(w, strings.ReplaceAll(body, usedMark, used))
		})}
		go func() { _ = server.Serve(listener) }()
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// usedMark stands for the memory in use, which differs from answer to answer.
const usedMark = "9999"

// answer is what a head says about its nodes, with all that Ray says about each.
func answer(cluster, slices int) string {
	nodes := []any{node(headIP(cluster), cluster, 0, true)}
	for slice := range slices {
		nodes = append(nodes, node(workerIP(cluster, slice), cluster, slice, false))
	}
	text, err := json.Marshal(map[string]any{"result": true, "msg": "Node summary fetched.", "data": map[string]any{"summary": nodes, "nodeLogicalResources": map[string]any{}}})
	if err != nil {
		panic(err) // it has no values that could fail
	}
	return string(text)
}

func node(ip string, cluster, slice int, head bool) map[string]any {
	gpus := []any{}
	if !head {
		gpus = append(gpus, map[string]any{
			"index": 0, "name": "NVIDIA A10", "uuid": fmt.Sprintf("GPU-%08x-0000-0000-0000-%012x", cluster, slice),
			"utilizationGpu": 41, "memoryUsed": 9999, "memoryTotal": 23028 * 2 / 22, "temperatureC": 50, "powerMw": 90000,
			"processesPids": []any{map[string]any{"pid": 4711, "gpuMemoryUsage": 900, "gpuUtilization": 40}},
		})
	}
	id := fmt.Sprintf("%056x", cluster*1000+slice)
	return map[string]any{
		"now": 1772442000.123, "hostname": "rs-benchmark-worker-" + id[:8], "ip": ip, "cpu": 12.5, "cpus": []int{4, 4},
		"mem": []any{17179869184, 13743895347, 20.0, 3435973837}, "shm": 9592832, "bootTime": 1772441000.0,
		"loadAvg": [][]float64{{1, 1, 1}, {.5, .5, .5}}, "disk": map[string]any{"/": map[string]any{"total": 107374182400, "used": 21474836480, "free": 85899345920, "percent": 20.0}},
		"diskIo": []int{0, 0, 0, 0}, "diskIoSpeed": []float64{0, 0, 0, 0}, "gpus": gpus, "tpus": []any{}, "network": []int{1234567, 7654321}, "networkSpeed": []float64{10, 20},
		"cmdline": []string{"/home/ray/anaconda3/lib/python3.11/site-packages/ray/core/src/ray/raylet/raylet", "--raylet_socket_name=/tmp/ray/session/sockets/raylet", "--store_socket_name=/tmp/ray/session/sockets/plasma_store", "--object_manager_port=0", "--node_manager_port=0", "--node_ip_address=" + ip, "--maximum_startup_concurrency=4", "--static_resource_list=CPU,4,GPU,1,memory,12025908428,object_store_memory,5153960755", "--python_worker_command=/home/ray/anaconda3/bin/python default_worker.py --node-ip-address=" + ip},
		"raylet": map[string]any{
			"nodeId": id, "isHeadNode": head, "state": "ALIVE", "stateMessage": nil, "nodeManagerAddress": ip, "nodeManagerHostname": "rs-benchmark", "nodeName": ip,
			"resourcesTotal": map[string]any{"CPU": 4.0, "GPU": 1.0, "memory": 12025908428.0, "objectStoreMemory": 5153960755.0, "node:" + ip: 1.0},
			"labels":         map[string]any{"ray.io/node-id": id}, "startTimeMs": "1772441000000", "endTimeMs": "0", "objectStoreUsedMemory": 0, "objectStoreAvailableMemory": 5153960755,
			"coreWorkersStats": []any{}, "instanceId": "", "instanceTypeName": "", "nodeTypeName": "",
		},
	}
}

// startHeads runs the heads in a process of their own, and returns what ends it.
func startHeads(ctx context.Context, clusters, slices int) (stop func(), err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, program, "heads", fmt.Sprint("--clusters=", clusters), fmt.Sprint("--slices=", slices))
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	stop = func() { _ = stdin.Close(); _ = command.Wait() }
	if line, err := bufio.NewReader(stdout).ReadString('\n'); strings.TrimSpace(line) != "ready" {
		stop()
		return nil, errors.Join(errors.New("the heads did not start"), err)
	}
	return stop, nil
}
