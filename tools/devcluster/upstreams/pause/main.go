// Command pause is process 1 of a pod and of a node: it holds namespaces, reaps children, and ends on a signal.
//
//	pause                hold namespaces
//	pause resolve NAME   return once NAME has an address; what an init container waits with
package main

import (
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	if len(os.Args) == 3 && os.Args[1] == "resolve" {
		go resolve(os.Args[2])
	}
	for each := range signals {
		if each != syscall.SIGCHLD {
			os.Exit(0)
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}

func resolve(name string) {
	for {
		if found, err := net.LookupHost(name); err == nil && len(found) > 0 {
			os.Exit(0)
		}
		time.Sleep(200 * time.Millisecond)
	}
}
