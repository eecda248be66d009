package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/health"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// checks are health checks in Lua by kind, evaluated as Argo CD does: the object is the global obj.
type checks map[string]string

func loadChecks(folder string) (checks, error) {
	loaded := checks{}
	files, err := filepath.Glob(filepath.Join(folder, "*.lua"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no <Kind>.lua in %q", folder)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		loaded[strings.TrimSuffix(filepath.Base(file), ".lua")] = string(text)
	}
	return loaded, nil
}

// GetResourceHealth returns nothing for a kind without a check of its own, which the engine then judges by itself.
func (c checks) GetResourceHealth(resource *unstructured.Unstructured) (*health.HealthStatus, error) {
	script, isKnown := c[resource.GetKind()]
	if !isKnown {
		return nil, nil
	}
	state := lua.NewState()
	defer state.Close()
	state.SetGlobal("obj", toLua(state, resource.Object))
	if err := state.DoString(script); err != nil {
		return nil, fmt.Errorf("%s.lua: %w", resource.GetKind(), err)
	}
	answer, isTable := state.Get(-1).(*lua.LTable)
	if !isTable {
		return nil, fmt.Errorf("%s.lua returns no table", resource.GetKind())
	}
	return &health.HealthStatus{
		Status:  health.HealthStatusCode(lua.LVAsString(answer.RawGetString("status"))),
		Message: lua.LVAsString(answer.RawGetString("message")),
	}, nil
}

func toLua(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, member := range value {
			table.RawSetString(key, toLua(state, member))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, member := range value {
			table.Append(toLua(state, member))
		}
		return table
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	default:
		return lua.LNil
	}
}
