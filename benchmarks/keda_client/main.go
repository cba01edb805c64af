// Asks an external scaler as KEDA does: with grpc-go and KEDA's own stubs, over one connection.
//
//	keda_client ADDRESS CALLS_PER_SECOND SECONDS SERVICES
//
// Calls go out on a fixed schedule, whatever becomes of those before. After two seconds of warming up a line
// "measuring" is printed, at the end the nanoseconds of each call, a line each.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	clockMonotonic = 1
	metric         = "desired_replicas"
)

func main() {
	if len(os.Args) != 5 {
		log.Fatalf("usage: %s ADDRESS CALLS_PER_SECOND SECONDS SERVICES", os.Args[0])
	}
	rate, seconds, services := number(os.Args[2]), number(os.Args[3]), number(os.Args[4])
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	client := externalscaler.NewExternalScalerClient(connection)
	offer(client, 2*rate, rate, services)
	debug.SetGCPercent(-1) // the client's own pauses are not the server's
	fmt.Println("measuring")
	took := offer(client, seconds*rate, rate, services)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for _, each := range took {
		fmt.Fprintln(out, each.Nanoseconds())
	}
}

// offer makes so many calls and answers how long each took.
func offer(client externalscaler.ExternalScalerClient, calls, rate, services int) []time.Duration {
	ticks := ticking(time.Second / time.Duration(rate))
	defer ticks.Close()
	took := make([]time.Duration, calls)
	var waiting sync.WaitGroup
	expirations := make([]byte, 8)
	for next := 0; next < calls; {
		if _, err := ticks.Read(expirations); err != nil {
			log.Fatal(err)
		}
		for due := binary.NativeEndian.Uint64(expirations); due > 0 && next < calls; due-- {
			waiting.Add(1)
			go func(index int) {
				defer waiting.Done()
				took[index] = call(client, fmt.Sprintf("service-%d", index%services))
			}(next)
			next++
		}
	}
	waiting.Wait()
	return took
}

func call(client externalscaler.ExternalScalerClient, service string) time.Duration {
	request := &externalscaler.GetMetricsRequest{
		ScaledObjectRef: &externalscaler.ScaledObjectRef{
			Name:      service,
			Namespace: "inference",
			ScalerMetadata: map[string]string{
				"scalerAddress": "gpu-autoscaler.gpu-autoscaler:9090",
				"service":       service,
			},
		},
		MetricName: metric,
	}
	begun := time.Now()
	answer, err := client.GetMetrics(context.Background(), request)
	took := time.Since(begun)
	if err != nil {
		log.Fatal(err)
	}
	if values := answer.GetMetricValues(); len(values) != 1 || values[0].GetMetricName() != metric {
		log.Fatalf("answered %v", answer)
	}
	return took
}

// ticking is a timer of the kernel's: Go's own are as coarse as a millisecond while nothing else runs.
func ticking(period time.Duration) *os.File {
	descriptor, _, failed := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, syscall.O_NONBLOCK, 0)
	if failed != 0 {
		log.Fatal(failed)
	}
	every := syscall.NsecToTimespec(period.Nanoseconds())
	setting := [2]syscall.Timespec{every, every}
	_, _, failed = syscall.Syscall6(
		syscall.SYS_TIMERFD_SETTIME, descriptor, 0, uintptr(unsafe.Pointer(&setting)), 0, 0, 0)
	if failed != 0 {
		log.Fatal(failed)
	}
	return os.NewFile(descriptor, "timer")
}

func number(text string) int {
	parsed, err := strconv.Atoi(text)
	if err != nil || parsed < 1 {
		log.Fatalf("must be a whole number above zero, got %q", text)
	}
	return parsed
}
