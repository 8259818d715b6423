// Command kubelet runs only the part of Kubernetes' own kubelet that handles DRA drivers: the watcher of plugin sockets,
// the manager that prepares claims for pods, its checkpoint, and the removal of slices of drivers that are gone. It runs
// no containers; it prints the devices that a runtime would get, as one line of JSON for each event.
//
//	kubelet KUBECONFIG NODE FOLDER
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"
)

// event is one line of the output.
type event struct {
	Pod      string              `json:"pod"`
	Prepared map[string][]string `json:"prepared,omitempty"` // CDI device names by container
	Error    string              `json:"error,omitempty"`
	Ended    bool                `json:"ended,omitempty"`
}

func tell(one event) {
	text, err := json.Marshal(one)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

// node lists the pods that are bound to it, from the API server.
type node struct {
	name    string
	client  kubernetes.Interface
	manager *dra.Manager

	lock     sync.Mutex
	pods     []*v1.Pod
	prepared map[types.UID]*v1.Pod
	failed   map[types.UID]string
}

func (n *node) active() []*v1.Pod {
	n.lock.Lock()
	defer n.lock.Unlock()
	return n.pods
}

// look finds the pods that are bound to the node.
func (n *node) look(ctx context.Context) error {
	selector := fields.OneTermEqualSelector("spec.nodeName", n.name).String()
	list, err := n.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return err
	}
	pods := make([]*v1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	n.lock.Lock()
	defer n.lock.Unlock()
	n.pods = pods
	return nil
}

func (n *node) sync(ctx context.Context) {
	there := sets.New[types.UID]()
	for _, pod := range n.active() {
		there.Insert(pod.UID)
		if pod.DeletionTimestamp != nil {
			n.end(ctx, pod, true)
		} else if n.prepared[pod.UID] == nil {
			n.begin(ctx, pod)
		}
	}
	for uid, pod := range n.prepared {
		if !there.Has(uid) {
			n.end(ctx, pod, false)
		}
	}
}

func (n *node) begin(ctx context.Context, pod *v1.Pod) {
	err := n.manager.PrepareResources(ctx, pod)
	found := map[string][]string{}
	for i := range pod.Spec.Containers {
		if err != nil {
			break
		}
		container := &pod.Spec.Containers[i]
		given, failed := n.manager.GetResources(pod, container)
		if err = failed; err == nil {
			for _, device := range given.CDIDevices {
				found[container.Name] = append(found[container.Name], device.Name)
			}
		}
	}
	if err != nil {
		if n.failed[pod.UID] != err.Error() {
			n.failed[pod.UID] = err.Error()
			tell(event{Pod: pod.Name, Error: err.Error()})
		}
		return
	}
	n.prepared[pod.UID] = pod
	now := pod.DeepCopy()
	now.Status.Phase = v1.PodRunning
	if _, err := n.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, now, metav1.UpdateOptions{}); err != nil {
		fmt.Fprintln(os.Stderr, "status:", err)
	}
	tell(event{Pod: pod.Name, Prepared: found})
}

// end unprepares the pod's claims, also those that an earlier process prepared.
func (n *node) end(ctx context.Context, pod *v1.Pod, there bool) {
	if err := n.manager.UnprepareResources(ctx, pod); err != nil {
		tell(event{Pod: pod.Name, Error: err.Error()})
		return
	}
	delete(n.prepared, pod.UID)
	tell(event{Pod: pod.Name, Ended: true})
	if there {
		zero := int64(0)
		options := metav1.DeleteOptions{GracePeriodSeconds: &zero}
		if err := n.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options); err != nil {
			fmt.Fprintln(os.Stderr, "delete:", err)
		}
	}
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: kubelet KUBECONFIG NODE FOLDER")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	folder := os.Args[3]
	settings, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		panic(err)
	}
	settings.QPS, settings.Burst = 100, 200
	client := kubernetes.NewForConfigOrDie(settings)
	manager, err := dra.NewManager(klog.FromContext(ctx), client, folder)
	if err != nil {
		panic(err)
	}
	here := &node{
		name: os.Args[2], client: client, manager: manager,
		prepared: map[types.UID]*v1.Pod{}, failed: map[types.UID]string{},
	}
	// The manager would unprepare the claims of a pod that is not reported as running.
	if err := here.look(ctx); err != nil {
		panic(err)
	}
	ready := config.NewSourcesReady(func(sets.Set[string]) bool { return true })
	itself := func(ctx context.Context) (*v1.Node, error) {
		return client.CoreV1().Nodes().Get(ctx, here.name, metav1.GetOptions{})
	}
	if err := manager.Start(ctx, here.active, itself, ready); err != nil {
		panic(err)
	}
	plugins := pluginmanager.NewPluginManager(filepath.Join(folder, "plugins_registry"), &record.FakeRecorder{})
	plugins.AddHandler(registration.DRAPlugin, manager.GetWatcherHandler())
	go plugins.Run(ctx, ready, ctx.Done())
	for ctx.Err() == nil {
		if err := here.look(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "pods:", err)
		} else {
			here.sync(ctx)
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}
