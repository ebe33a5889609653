// Command oracle says what kube-scheduler's own framework and plugins decide about pods.
//
// It reads cases from standard input, one JSON object per line, and writes one JSON answer per
// line, in the same order. A case that kube-scheduler cannot take is answered with its error.
// It talks to no cluster, and keeps nothing from one case to the next.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync/atomic"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// testCase is one line of the input.
type testCase struct {
	Objects []json.RawMessage `json:"objects"`
	Pods    []json.RawMessage `json:"pods"`
	Config  json.RawMessage   `json:"config"`
	// Preempt asks what preemption would do for pods that fit nowhere.
	Preempt bool `json:"preempt"`
	// StartIndex asks for kube-scheduler's own search, which begins there and may end early.
	StartIndex *int `json:"startIndex"`
}

// answer is one line of the output: what became of each asked pod, or why nobody can tell.
type answer struct {
	Pods  []podAnswer `json:"pods,omitempty"`
	Error string      `json:"error,omitempty"`
}

// panicked holds what a plugin's own goroutine panicked with. Kubernetes would end the process;
// here the case is answered with it.
var panicked atomic.Value

func main() {
	flag.Parse()
	klog.SetLogger(logr.Discard())
	// No pod takes a node only because the one before it was like it.
	gates := utilfeature.DefaultMutableFeatureGate
	if err := gates.SetFromMap(map[string]bool{
		string(features.OpportunisticBatching):              false,
		string(features.TaintTolerationComparisonOperators): true,
	}); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
	metrics.Register()
	utilruntime.ReallyCrash = false
	utilruntime.PanicHandlers = append(
		utilruntime.PanicHandlers[:0],
		func(_ context.Context, what any) { panicked.Store(fmt.Sprint(what)) },
	)
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

// serve answers line by line until the input ends.
func serve(input io.Reader, output io.Writer) error {
	reader := bufio.NewReaderSize(input, 1<<20)
	writer := bufio.NewWriterSize(output, 1<<20)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	schedulers := newSchedulers()
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 1 {
			if err := encoder.Encode(decide(schedulers, line)); err != nil {
				return err
			}
			// Who asks one by one waits for this answer; who has asked more gets them together.
			if reader.Buffered() == 0 {
				if err := writer.Flush(); err != nil {
					return err
				}
			}
		}
		if errors.Is(err, io.EOF) {
			return writer.Flush()
		}
		if err != nil {
			return err
		}
	}
}

// decide answers one line, whatever it holds.
func decide(schedulers *schedulers, line []byte) (result answer) {
	defer func() {
		if what := recover(); what != nil {
			debug.PrintStack()
			result = answer{Error: fmt.Sprintf("panic: %v", what)}
		}
	}()
	panicked.Store("")
	pods, err := decideAll(schedulers, line)
	if what := panicked.Load().(string); what != "" {
		return answer{Error: "panic: " + what}
	}
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Pods: pods}
}

func decideAll(schedulers *schedulers, line []byte) ([]podAnswer, error) {
	var one testCase
	if err := json.Unmarshal(line, &one); err != nil {
		return nil, err
	}
	scheduler, err := schedulers.of(one.Config)
	if err != nil {
		return nil, err
	}
	cluster, err := read(one)
	if err != nil {
		return nil, err
	}
	if err := scheduler.load(cluster, one.StartIndex); err != nil {
		return nil, err
	}
	answers := make([]podAnswer, 0, len(cluster.asked))
	for _, pod := range cluster.asked {
		decided, err := scheduler.decide(context.Background(), pod, one.Preempt)
		if err != nil {
			return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		answers = append(answers, decided)
	}
	return answers, nil
}
