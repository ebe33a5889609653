// Command claims says what kube-scheduler's DynamicResources plugin decides about pods with
// resource claims, and what its CEL selectors say about devices.
//
// It reads cases from standard input, one JSON object per line, and writes one JSON answer per
// line, in the same order. It talks to no cluster, and keeps nothing from one case to the next.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/go-logr/logr"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/klog/v2"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// testCase is one line of the input: a question about pods, or one about selectors.
type testCase struct {
	Objects []json.RawMessage `json:"objects"`
	Pods    []json.RawMessage `json:"pods"`
	CEL     *celCase          `json:"cel"`
}

// celCase asks for each expression what it says about each device.
type celCase struct {
	Expressions []string `json:"expressions"`
	Devices     []device `json:"devices"`
}

type device struct {
	Driver string            `json:"driver"`
	Device resourcev1.Device `json:"device"`
}

// verdict is what an expression says about a device.
type verdict struct {
	Matches bool   `json:"matches"`
	Error   string `json:"error,omitempty"`
}

// selector is what became of an expression.
type selector struct {
	CompileError string    `json:"compileError,omitempty"`
	Devices      []verdict `json:"devices,omitempty"`
}

type answer struct {
	Pods  []podAnswer `json:"pods,omitempty"`
	CEL   []selector  `json:"cel,omitempty"`
	Error string      `json:"error,omitempty"`
}

func main() {
	klog.SetLogger(logr.Discard())
	metrics.Register()
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "claims:", err)
		os.Exit(1)
	}
}

// serve answers line by line until the input ends.
func serve(input io.Reader, output io.Writer) error {
	reader := bufio.NewReaderSize(input, 1<<20)
	writer := bufio.NewWriterSize(output, 1<<20)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 1 {
			if err := encoder.Encode(decide(line)); err != nil {
				return err
			}
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
func decide(line []byte) (result answer) {
	defer func() {
		if what := recover(); what != nil {
			debug.PrintStack()
			result = answer{Error: fmt.Sprintf("panic: %v", what)}
		}
	}()
	var one testCase
	if err := json.Unmarshal(line, &one); err != nil {
		return answer{Error: err.Error()}
	}
	if one.CEL != nil {
		return answer{CEL: evaluate(one.CEL)}
	}
	pods, err := decidePods(one)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Pods: pods}
}

// evaluate compiles as the plugin does, with the default gates.
func evaluate(one *celCase) []selector {
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true})
	selectors := make([]selector, 0, len(one.Expressions))
	for _, expression := range one.Expressions {
		compiled := compiler.CompileCELExpression(
			expression, cel.Options{DisableCostEstimation: true},
		)
		if compiled.Error != nil {
			selectors = append(selectors, selector{CompileError: compiled.Error.Error()})
			continue
		}
		found := selector{}
		for _, one := range one.Devices {
			matches, _, err := compiled.DeviceMatches(context.Background(), cel.Device{
				Driver:                   one.Driver,
				AllowMultipleAllocations: one.Device.AllowMultipleAllocations,
				Attributes:               one.Device.Attributes,
				Capacity:                 one.Device.Capacity,
			})
			said := verdict{Matches: matches}
			if err != nil {
				said.Error = err.Error()
			}
			found.Devices = append(found.Devices, said)
		}
		selectors = append(selectors, found)
	}
	return selectors
}
