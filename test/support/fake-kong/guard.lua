-- Runs functions of Kong's post-function plugin with as much of Kong's PDK as they use. Reads a Lua table from standard
-- input, and writes one line for each effect: `log HEX`, `clear HEX`, `exit STATUS HEX` or `error HEX`.
local state = assert(loadstring(io.read("*a")))()
local exited = {}

local function hex(text)
  return (text:gsub(".", function(character) return string.format("%02x", character:byte()) end))
end

local function require_header_filter()
  if state.phase ~= "header_filter" then error("function cannot be called in " .. state.phase .. " phase", 3) end
end

local function json(body)
  local members = {}
  for name, value in pairs(body) do members[#members + 1] = string.format("%q:%q", name, value) end
  return "{" .. table.concat(members, ",") .. "}"
end

local kong = {
  ctx = { shared = state.shared },
  log = { err = function(...) print("log " .. hex(table.concat({ ... }))) end },
  request = {
    get_method = function() return state.method end,
  },
  response = {
    get_source = function() require_header_filter() return state.source end,
    get_status = function() require_header_filter() return state.status end,
    get_header = function(name)
      require_header_filter()
      local values = state.headers[name:lower()]
      return values and values[1]
    end,
    get_headers = function(max)
      require_header_filter()
      local found, count = {}, 0
      for name, values in pairs(state.headers) do
        if count + #values > (max or 100) then break end
        count = count + #values
        found[name] = #values == 1 and values[1] or values
      end
      return found
    end,
    clear_header = function(name)
      require_header_filter()
      state.headers[name:lower()] = nil
      print("clear " .. hex(name:lower()))
    end,
    exit = function(status, body)
      print("exit " .. status .. " " .. hex(body and json(body) or ""))
      error(exited)
    end,
  },
}

for _, text in ipairs(state.functions) do
  local run = assert(loadstring(text))
  -- What Kong's sandbox leaves of the globals, as far as it is needed.
  setfenv(run, { kong = kong, pairs = pairs, ipairs = ipairs, next = next, type = type, tostring = tostring })
  local ok, problem = pcall(run)
  if not ok then
    if problem ~= exited then print("error " .. hex(tostring(problem))) end
    break
  end
end
