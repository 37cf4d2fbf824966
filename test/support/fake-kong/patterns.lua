-- Says for each text whether a string field of Kong's schema takes it: `1` or `0` on a line.
local state = assert(loadstring(io.read("*a")))()
for _, text in ipairs(state.texts) do
  local taken = true
  for _, rule in ipairs(state.rules.match_all or {}) do taken = taken and text:find(rule.pattern) ~= nil end
  for _, rule in ipairs(state.rules.match_none or {}) do taken = taken and text:find(rule.pattern) == nil end
  if state.rules.match then taken = taken and text:find(state.rules.match) ~= nil end
  if state.rules.match_any then
    local any = false
    for _, pattern in ipairs(state.rules.match_any.patterns) do any = any or text:find(pattern) ~= nil end
    taken = taken and any
  end
  print(taken and 1 or 0)
end
