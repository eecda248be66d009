// Command kstatus says what tools that wait, like Flux and kpt, take an object for.
//
// It reads a JSON list of Kubernetes objects from its input and writes a JSON list with a status for each: Current, InProgress,
// Failed, Terminating, NotFound or Unknown, with the message.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type answer struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kstatus:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	var objects []json.RawMessage
	if err := json.NewDecoder(in).Decode(&objects); err != nil {
		return fmt.Errorf("the input is no JSON list of objects: %w", err)
	}
	answers := make([]answer, 0, len(objects))
	for number, raw := range objects {
		var object unstructured.Unstructured
		if err := object.UnmarshalJSON(raw); err != nil { // keeps integers, which kstatus asks for
			return fmt.Errorf("object %d: %w", number, err)
		}
		result, err := status.Compute(&object)
		if err != nil {
			return fmt.Errorf("object %d: %w", number, err)
		}
		answers = append(answers, answer{Status: result.Status.String(), Message: result.Message})
	}
	return json.NewEncoder(out).Encode(answers)
}
