// Command informer watches the claims of a namespace as Go controllers do, with client-go's shared informer, and prints
// one line for each change: ADDED, MODIFIED or DELETED, the name, and the state. It ends after COUNT changes.
//
//	go run . KUBECONFIG NAMESPACE COUNT
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func state(claim *resourcev1.ResourceClaim) string {
	if claim.Status.Allocation == nil {
		return "pending"
	}
	return "allocated"
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		panic(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	count, err := strconv.Atoi(os.Args[3])
	if err != nil {
		panic(err)
	}
	lines := make(chan string)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(os.Args[2]))
	claims := factory.Resource().V1().ResourceClaims().Informer()
	_, err = claims.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			claim := object.(*resourcev1.ResourceClaim)
			lines <- fmt.Sprintln("ADDED", claim.Name, state(claim))
		},
		UpdateFunc: func(_, object any) {
			claim := object.(*resourcev1.ResourceClaim)
			lines <- fmt.Sprintln("MODIFIED", claim.Name, state(claim))
		},
		DeleteFunc: func(object any) {
			claim := object.(*resourcev1.ResourceClaim)
			lines <- fmt.Sprintln("DELETED", claim.Name, state(claim))
		},
	})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), claims.HasSynced) {
		panic("the informer did not sync")
	}
	fmt.Println("SYNCED")
	for range count {
		select {
		case line := <-lines:
			fmt.Print(line)
		case <-ctx.Done():
			panic("not enough changes")
		}
	}
}
